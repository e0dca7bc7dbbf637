#include "queues/sdma_packet.h"

enum { OP_NOP = 0, OP_COPY = 1, OP_FENCE = 5, OP_TRAP = 6, OP_FILL = 11, OP_TIMESTAMP = 13 };

#define FENCE_MTYPE_UC   (3u << 16)
#define FILL_DWORDS      (2u << 30)
#define TIMESTAMP_GLOBAL (2u << 8)

static uint32_t lo(uint64_t va)
{
	return (uint32_t)va;
}

static uint32_t hi(uint64_t va)
{
	return (uint32_t)(va >> 32);
}

uint32_t sdma_encode_copy(uint32_t *w, uint64_t dst, uint64_t src, uint32_t bytes)
{
	w[0] = OP_COPY;
	w[1] = bytes - 1;
	w[2] = 0;
	w[3] = lo(src);
	w[4] = hi(src);
	w[5] = lo(dst);
	w[6] = hi(dst);
	return SDMA_COPY_DWORDS;
}

uint32_t sdma_encode_fill(uint32_t *w, uint64_t dst, uint32_t value, uint32_t bytes)
{
	w[0] = OP_FILL | FILL_DWORDS;
	w[1] = lo(dst);
	w[2] = hi(dst);
	w[3] = value;
	w[4] = bytes - 1;
	return SDMA_FILL_DWORDS;
}

uint32_t sdma_encode_fence(uint32_t *w, uint64_t va, uint32_t value)
{
	w[0] = OP_FENCE | FENCE_MTYPE_UC;
	w[1] = lo(va);
	w[2] = hi(va);
	w[3] = value;
	return SDMA_FENCE_DWORDS;
}

uint32_t sdma_encode_timestamp(uint32_t *w, uint64_t va)
{
	w[0] = OP_TIMESTAMP | TIMESTAMP_GLOBAL;
	w[1] = lo(va);
	w[2] = hi(va);
	return SDMA_TIMESTAMP_DWORDS;
}

uint32_t sdma_encode_trap(uint32_t *w, uint32_t trigger)
{
	w[0] = OP_TRAP;
	w[1] = trigger & 0xfffffff;
	return SDMA_TRAP_DWORDS;
}

uint32_t sdma_encode_nop(uint32_t *w, uint32_t dwords)
{
	w[0] = OP_NOP | (dwords - 1) << 16;
	for (uint32_t i = 1; i < dwords; i++)
		w[i] = 0;
	return dwords;
}

uint32_t sdma_part(uint64_t dst, uint64_t left)
{
	uint64_t room = SDMA_PACKET_BYTES - dst % SDMA_PACKET_BYTES;

	return (uint32_t)(left < room ? left : room);
}
