/* What the kernel says of a process's GPU memory, from outside. */
#ifndef TOOLS_MEM_EXTERNAL_H
#define TOOLS_MEM_EXTERNAL_H

#include "tools/tool.h"

struct mem_number {
	bool known;
	uint64_t bytes;
	char why[96]; /* when not known */
};

struct mem_external {
	unsigned drm_clients; /* distinct ones; the same client's descriptors count once */
	struct mem_number vram, gtt, cpu; /* fdinfo drm-memory-*, or drm-resident-* */
	struct mem_number kfd_vram;       /* /sys/class/kfd/kfd/proc/PID/vram_* */
	unsigned kfd_queues;
	bool kfd_known;
	struct mem_number created; /* amdgpu_bo_create, while traced */
	uint64_t created_count;
	double traced_seconds;
};

/* root goes before /proc and /sys ("" for the machine's own). trace_seconds 0: no trace. */
void mem_external_read(const char *root, int pid, double trace_seconds, struct mem_external *out);

#endif
