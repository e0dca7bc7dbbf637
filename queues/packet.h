/* AQL packets, 64 bytes each. Pure encoding; queues/submit.c puts them in a ring.
 * Source: HSA Platform System Architecture 1.2, 2.9; LLVM AMDGPUUsage "Kernel Dispatch".
 */
#ifndef QUEUES_PACKET_H
#define QUEUES_PACKET_H

#include <stdbool.h>
#include <stdint.h>

enum aql_type {
	AQL_VENDOR = 0,
	AQL_INVALID = 1,
	AQL_DISPATCH = 2,
	AQL_BARRIER_AND = 3,
	AQL_AGENT = 4,
	AQL_BARRIER_OR = 5,
};
enum aql_scope { AQL_SCOPE_NONE = 0, AQL_SCOPE_AGENT = 1, AQL_SCOPE_SYSTEM = 2 };

struct aql_packet {
	union {
		uint32_t dword[16];
		struct {
			uint16_t header;
			uint16_t setup; /* dimensions, 1..3 */
			uint16_t group[3];
			uint16_t reserved0;
			uint32_t grid[3];
			uint32_t private_bytes, group_bytes;
			uint64_t kernel_object, kernarg;
			uint64_t reserved2, completion;
		} dispatch;
		struct {
			uint16_t header, reserved0;
			uint32_t reserved1;
			uint64_t dep[5];
			uint64_t reserved2, completion;
		} barrier;
	};
};
_Static_assert(sizeof(struct aql_packet) == 64, "an AQL packet is 64 bytes");

static inline uint16_t aql_header(enum aql_type type, bool barrier, enum aql_scope acquire,
				  enum aql_scope release)
{
	return (uint16_t)(type | barrier << 8 | acquire << 9 | release << 11);
}
static inline enum aql_type aql_header_type(uint16_t header)
{
	return (enum aql_type)(header & 0xff);
}

struct aql_dispatch_fields {
	uint64_t kernel_object, kernarg, completion; /* VAs; completion 0 = none */
	uint32_t grid[3];                            /* work-items; 0 counts as 1 */
	uint16_t group[3];                           /* 0 counts as 1 */
	uint32_t private_bytes, group_bytes;
	bool barrier, acquire_system, release_system;
};
/* Both fill the whole packet, header INVALID, and return the first dword (header and setup) that
 * makes it live: store that last, with release. */
uint32_t aql_encode_dispatch(struct aql_packet *p, const struct aql_dispatch_fields *f);
uint32_t aql_encode_barrier_and(struct aql_packet *p, const uint64_t dep[5], uint64_t completion);

#endif
