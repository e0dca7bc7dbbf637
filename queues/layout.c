#include <errno.h>
#include <string.h>

#include "queues/layout.h"

#define SRD_SWIZZLE 0x40000000u /* word 1: SWIZZLE_ENABLE 1, element of 4 bytes */
#define SRD_WORD3   0x20814facu /* format, index stride and add-tid as gfx11 scratch needs them */
/* WAVESIZE has 15 bits of 256 bytes; the runtime's own limit leaves the last ones unused. */
#define WAVE_BYTES_MAX 8387584u

void queue_layout_fill(struct queue_page *p, const struct queue_layout *l)
{
	struct amd_queue *q = &p->queue;

	memset(p, 0, sizeof(*p));
	q->type = 0;
	q->features = 1;
	q->ring = l->ring;
	q->doorbell_signal = l->va + offsetof(struct queue_page, doorbell);
	q->size = l->packets;
	q->id = l->id;
	q->group_aperture_base_hi = (uint32_t)(l->lds_base >> 32);
	q->private_aperture_base_hi = (uint32_t)(l->scratch_base >> 32);
	q->max_cu_id = l->cus - 1;
	q->max_wave_id = l->waves_per_simd * l->simd_per_cu - 1;
	q->read_dispatch_id_field_base_byte_offset = offsetof(struct amd_queue, read_dispatch_id);
	q->queue_properties = AMD_QUEUE_PROPERTIES_IS_PTR64;
	q->scratch_last_used_index = ~0ull;
	q->alt_scratch_last_used_index = ~0ull;
	q->queue_inactive_signal = l->va + offsetof(struct queue_page, inactive);
	queue_layout_scratch(q, NULL, 0);

	p->doorbell.kind = AMD_SIGNAL_KIND_DOORBELL;
	p->doorbell.queue = l->va;
	p->inactive.kind = AMD_SIGNAL_KIND_USER;
	p->inactive.event_mailbox = l->inactive_mailbox;
	p->inactive.event_id = l->inactive_event;
}

int scratch_plan_compute(uint32_t lane_bytes, uint32_t lanes, uint32_t cus, uint32_t shader_engines,
			 uint32_t slots_per_cu, uint32_t divide, struct scratch_plan *out)
{
	uint32_t unit, lane, waves;

	if (!lane_bytes || (lanes != 32 && lanes != 64) || !cus || !shader_engines ||
	    !slots_per_cu || !divide)
		return -EINVAL;
	if (lane_bytes > WAVE_BYTES_MAX / lanes)
		return -EINVAL;
	/* A wave's share is a multiple of 256 bytes. */
	unit = 256 / lanes;
	lane = (lane_bytes + unit - 1) / unit * unit;
	if ((uint64_t)lane * lanes > WAVE_BYTES_MAX)
		return -EINVAL;
	waves = (cus + shader_engines - 1) / shader_engines * slots_per_cu / divide;
	if (!waves)
		return -EINVAL;
	if (waves > 0xfff)
		waves = 0xfff;
	*out = (struct scratch_plan){
		.lane_bytes = lane,
		.wave_bytes = lane * lanes,
		.waves_per_se = waves,
		.bytes = (uint64_t)lane * lanes * waves * shader_engines,
		.tmpring = waves | (lane * lanes / 256) << 12,
		.wave64_lane_bytes = lane * lanes / 64,
	};
	return 0;
}

void queue_layout_scratch(struct amd_queue *q, const struct scratch_plan *p, uint64_t va)
{
	q->compute_tmpring_size = p ? p->tmpring : 0;
	q->scratch_resource_descriptor[0] = (uint32_t)va;
	q->scratch_resource_descriptor[1] = (uint32_t)(va >> 32 & 0xffff) | SRD_SWIZZLE;
	q->scratch_resource_descriptor[2] =
		p ? (uint32_t)(p->bytes > UINT32_MAX ? UINT32_MAX : p->bytes) : 0;
	q->scratch_resource_descriptor[3] = SRD_WORD3;
	q->scratch_backing_memory_location = va;
	q->scratch_backing_memory_byte_size = p ? p->bytes : 0;
	q->scratch_wave64_lane_byte_size = p ? p->wave64_lane_bytes : 0;
}
