/* What the command processor reads from memory: amd_queue_t and amd_signal_t. Pure.
 *
 * The command processor finds the structure from the read pointer it was given at CREATE_QUEUE,
 * less read_dispatch_id_field_base_byte_offset. Sources: the HSA runtime's public amd_hsa_queue.h
 * and amd_hsa_signal.h layouts; values as that runtime leaves them on gfx1151.
 */
#ifndef QUEUES_LAYOUT_H
#define QUEUES_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct amd_queue {
	uint32_t type, features; /* 0 multi-producer; bit 0 kernel dispatch */
	uint64_t ring;
	uint64_t doorbell_signal; /* VA of an amd_signal of kind DOORBELL */
	uint32_t size;            /* packets */
	uint32_t reserved0;
	uint64_t id;
	uint32_t caps; /* written by firmware */
	uint32_t reserved1[3];
	uint64_t write_dispatch_id;        /* 0x38 */
	uint32_t group_aperture_base_hi;   /* 0x40 */
	uint32_t private_aperture_base_hi; /* 0x44 */
	uint32_t max_cu_id, max_wave_id;
	uint64_t max_legacy_doorbell_dispatch_id_plus_1;
	uint32_t legacy_doorbell_lock;
	uint32_t reserved2[9];
	uint64_t read_dispatch_id; /* 0x80 */
	uint32_t read_dispatch_id_field_base_byte_offset;
	uint32_t compute_tmpring_size; /* WAVES 11:0 per shader engine, WAVESIZE 26:12 in 256 B */
	uint32_t scratch_resource_descriptor[4];
	uint64_t scratch_backing_memory_location;
	uint64_t scratch_backing_memory_byte_size;
	uint32_t scratch_wave64_lane_byte_size; /* 0 = none */
	uint32_t queue_properties;
	uint64_t scratch_last_used_index;
	uint64_t queue_inactive_signal; /* 0xc0: VA of an amd_signal */
	uint32_t reserved4[2];
	uint64_t alt_scratch_last_used_index; /* 0xd0 */
	uint32_t reserved5[10];
};
_Static_assert(sizeof(struct amd_queue) == 0x100, "amd_queue_t is 256 bytes");
_Static_assert(offsetof(struct amd_queue, write_dispatch_id) == 0x38, "write_dispatch_id");
_Static_assert(offsetof(struct amd_queue, read_dispatch_id) == 0x80, "read_dispatch_id");
_Static_assert(offsetof(struct amd_queue, scratch_resource_descriptor) == 0x90, "scratch SRD");
_Static_assert(offsetof(struct amd_queue, queue_properties) == 0xb4, "queue_properties");
_Static_assert(offsetof(struct amd_queue, queue_inactive_signal) == 0xc0, "inactive signal");
_Static_assert(offsetof(struct amd_queue, alt_scratch_last_used_index) == 0xd0, "alt index");

#define AMD_QUEUE_PROPERTIES_IS_PTR64 2u

struct amd_signal {
	int64_t kind;
	union {
		int64_t value;
		uint64_t doorbell; /* kind DOORBELL: the address to ring */
	};
	uint64_t event_mailbox; /* VA of the event's slot; 0: no interrupt */
	uint32_t event_id;
	uint32_t reserved1;
	uint64_t start_ts, end_ts;
	uint64_t queue; /* kind DOORBELL: VA of the amd_queue */
	uint32_t reserved3[2];
};
_Static_assert(sizeof(struct amd_signal) == 64, "amd_signal_t is 64 bytes");

#define AMD_SIGNAL_KIND_USER     1
#define AMD_SIGNAL_KIND_DOORBELL (-1)

/* Where things sit in a queue's own page. */
struct queue_page {
	struct amd_queue queue;
	struct amd_signal doorbell;
	struct amd_signal inactive;
	uint64_t error; /* the save-area header's error payload word */
};

struct queue_layout {
	uint64_t va; /* of the queue_page */
	uint64_t ring;
	uint32_t packets;
	uint64_t id;
	uint64_t lds_base, scratch_base; /* process apertures */
	uint32_t cus, waves_per_simd, simd_per_cu;
	uint64_t inactive_mailbox;
	uint32_t inactive_event;
};
/* Fills every field of a zeroed or used page; the doorbell address comes later. */
void queue_layout_fill(struct queue_page *p, const struct queue_layout *l);

/* Scratch for a whole GPU at `lane_bytes` per work-item. */
struct scratch_plan {
	uint64_t bytes;
	uint32_t lane_bytes; /* rounded up: a wave's share is whole 256-byte units */
	uint32_t wave_bytes;
	uint32_t waves_per_se;
	uint32_t tmpring;
	uint32_t wave64_lane_bytes;
};
/* lanes 32 or 64. divide: 1 for all wave slots, 2 for half of them, ... -EINVAL when a wave would
 * need more than the hardware's field holds or no slot is left. */
int scratch_plan_compute(uint32_t lane_bytes, uint32_t lanes, uint32_t cus, uint32_t shader_engines,
			 uint32_t slots_per_cu, uint32_t divide, struct scratch_plan *out);
/* Writes the scratch fields; p NULL writes "none". */
void queue_layout_scratch(struct amd_queue *q, const struct scratch_plan *p, uint64_t va);

#endif
