/* SDMA packets, version 6 (gfx11). Pure encoding.
 *
 * Source: the kernel's amdgpu/sdma_v6_0_0_pkt_open.h. Lengths are in dwords. Addresses are VAs of
 * the queue's process.
 */
#ifndef QUEUES_SDMA_PACKET_H
#define QUEUES_SDMA_PACKET_H

#include <stdint.h>

#define SDMA_COPY_DWORDS      7u
#define SDMA_FILL_DWORDS      5u
#define SDMA_FENCE_DWORDS     4u
#define SDMA_TIMESTAMP_DWORDS 3u
#define SDMA_TRAP_DWORDS      2u
#define SDMA_MAX_DWORDS       7u

/* One packet moves at most this. The count field has 30 bits, but the engine arbitrates between
 * packets only: short ones let other queues in, and a preempted queue resumes at a packet. */
#define SDMA_PACKET_BYTES (2u << 20)

/* bytes: 1 .. SDMA_PACKET_BYTES. Any alignment. */
uint32_t sdma_encode_copy(uint32_t *w, uint64_t dst, uint64_t src, uint32_t bytes);
/* bytes: a multiple of 4, 4 .. SDMA_PACKET_BYTES; dst a multiple of 4. */
uint32_t sdma_encode_fill(uint32_t *w, uint64_t dst, uint32_t value, uint32_t bytes);
/* Stores value at va (a multiple of 4) after everything before it has been written. */
uint32_t sdma_encode_fence(uint32_t *w, uint64_t va, uint32_t value);
/* Stores the GPU's counter, 64 bits, at va (a multiple of 32). */
uint32_t sdma_encode_timestamp(uint32_t *w, uint64_t va);
/* Interrupts with an event's trigger, 28 bits. */
uint32_t sdma_encode_trap(uint32_t *w, uint32_t trigger);
/* A NOP of n dwords, 1 .. 0x3fff + 1: what is left before the ring's end. */
uint32_t sdma_encode_nop(uint32_t *w, uint32_t dwords);

/* The bytes of the first packet of a transfer of `left` bytes to dst; 0 only when left is. Packets
 * end where dst is a multiple of SDMA_PACKET_BYTES: one packet writes to one 2 MiB page. */
uint32_t sdma_part(uint64_t dst, uint64_t left);

#endif
