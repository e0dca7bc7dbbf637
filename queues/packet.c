#include <string.h>

#include "queues/packet.h"

uint32_t aql_encode_dispatch(struct aql_packet *p, const struct aql_dispatch_fields *f)
{
	uint16_t header = aql_header(AQL_DISPATCH, f->barrier,
				     f->acquire_system ? AQL_SCOPE_SYSTEM : AQL_SCOPE_AGENT,
				     f->release_system ? AQL_SCOPE_SYSTEM : AQL_SCOPE_AGENT);
	uint16_t dims = 1;

	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; i < 3; i++) {
		p->dispatch.grid[i] = f->grid[i] ? f->grid[i] : 1;
		p->dispatch.group[i] = f->group[i] ? f->group[i] : 1;
		if (p->dispatch.grid[i] > 1 || p->dispatch.group[i] > 1)
			dims = (uint16_t)(i + 1);
	}
	p->dispatch.setup = dims;
	p->dispatch.private_bytes = f->private_bytes;
	p->dispatch.group_bytes = f->group_bytes;
	p->dispatch.kernel_object = f->kernel_object;
	p->dispatch.kernarg = f->kernarg;
	p->dispatch.completion = f->completion;
	p->dispatch.header = AQL_INVALID;
	return header | (uint32_t)dims << 16;
}

uint32_t aql_encode_barrier_and(struct aql_packet *p, const uint64_t dep[5], uint64_t completion)
{
	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; dep && i < 5; i++)
		p->barrier.dep[i] = dep[i];
	p->barrier.completion = completion;
	p->barrier.header = AQL_INVALID;
	return aql_header(AQL_BARRIER_AND, true, AQL_SCOPE_SYSTEM, AQL_SCOPE_SYSTEM);
}
