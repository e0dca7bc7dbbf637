/* Fault words. Pure.
 *
 * Fields of GCVM_L2_PROTECTION_FAULT_STATUS on gfx11: MORE_FAULTS 0, WALKER_ERROR 3:1,
 * PERMISSION_FAULTS 7:4, MAPPING_ERROR 8, CID 17:9, RW 18, ATOMIC 19, VMID 23:20
 * (gc_11_5_0 register masks; client names in amdgpu/gfxhub_v11_5_0.c).
 */
#include <stdio.h>

#include "kfd/kfd.h"

static const char *const client_names[] = {
	[0] = "CB/DB",      [2] = "GE1",         [3] = "GE2",    [4] = "CPF",
	[5] = "CPC",        [6] = "CPG",         [7] = "RLC",    [8] = "TCP",
	[9] = "SQC (inst)", [10] = "SQC (data)", [11] = "SQG",   [13] = "SDMA0",
	[14] = "SDMA1",     [15] = "GCR",        [16] = "SDMA2", [17] = "SDMA3",
};

void kfd_fault_status_decode(uint32_t status, struct kfd_fault_status *out)
{
	uint32_t cid = status >> 9 & 0x1ff;
	const char *name = NULL;

	if (cid < sizeof(client_names) / sizeof(client_names[0]))
		name = client_names[cid];
	*out = (struct kfd_fault_status){
		.more_faults = status & 1,
		.walker_error = status >> 1 & 7,
		.permission_faults = status >> 4 & 0xf,
		.mapping_error = status >> 8 & 1,
		.client_id = cid,
		.write = status >> 18 & 1,
		.atomic = status >> 19 & 1,
		.vmid = status >> 20 & 0xf,
		.client = name ? name : "unknown",
	};
}

static const struct {
	uint32_t code;
	const char *name;
} exceptions[] = {
	{EC_QUEUE_WAVE_ABORT, "wave aborted"},
	{EC_QUEUE_WAVE_TRAP, "wave trap"},
	{EC_QUEUE_WAVE_MATH_ERROR, "math exception"},
	{EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION, "illegal instruction"},
	{EC_QUEUE_WAVE_MEMORY_VIOLATION, "memory violation"},
	{EC_QUEUE_WAVE_APERTURE_VIOLATION, "aperture violation"},
	{EC_QUEUE_PACKET_DISPATCH_DIM_INVALID, "invalid dimensions in a dispatch packet"},
	{EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID, "group segment too large"},
	{EC_QUEUE_PACKET_DISPATCH_CODE_INVALID, "invalid kernel object"},
	{EC_QUEUE_PACKET_RESERVED, "reserved packet field set"},
	{EC_QUEUE_PACKET_UNSUPPORTED, "unsupported packet"},
	{EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, "invalid workgroup size"},
	{EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID, "too many registers"},
	{EC_QUEUE_PACKET_VENDOR_UNSUPPORTED, "unsupported vendor packet"},
	{EC_QUEUE_PREEMPTION_ERROR, "preemption failed"},
	{EC_DEVICE_MEMORY_VIOLATION, "device memory violation"},
	{EC_DEVICE_RAS_ERROR, "RAS error"},
	{EC_DEVICE_FATAL_HALT, "device halted"},
	{EC_PROCESS_DEVICE_REMOVE, "device removed"},
};

int kfd_exception_names(uint64_t mask, char *text, size_t len)
{
	size_t at = 0;

	if (len)
		text[0] = 0;
	for (unsigned bit = 0; bit < 64; bit++) {
		const char *name = NULL;
		int n;

		if (!(mask >> bit & 1))
			continue;
		for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
			if (exceptions[i].code == bit + 1)
				name = exceptions[i].name;
		if (name)
			n = snprintf(text + at, at < len ? len - at : 0, "%s%s", at ? ", " : "",
				     name);
		else
			n = snprintf(text + at, at < len ? len - at : 0, "%sexception %u",
				     at ? ", " : "", bit + 1);
		at += (size_t)n;
		if (at >= len)
			return len ? (int)len - 1 : 0;
	}
	return (int)at;
}
