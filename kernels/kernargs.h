/* Kernel arguments: the one description shared by the device sources and the host.
 *
 * Every kernel takes one struct by value; the host writes that struct at the dispatch's kernarg
 * address (AMDGPUUsage "Kernel Argument": explicit arguments start at offset 0). No kernel here
 * uses hidden arguments, so nothing follows the struct.
 *
 * Strides are in elements of float; row_bytes in bytes. All pointers are 16-byte aligned and all
 * float rows a multiple of four long (the engine declines other shapes), so that a lane may move
 * four floats at a time.
 */
#ifndef KERNELS_KERNARGS_H
#define KERNELS_KERNARGS_H

#include <stdint.h>

#ifdef __AMDGCN__
#define KA_PTR(type) __attribute__((address_space(1))) type *
#else
#define KA_PTR(type) uint64_t
#endif

/* What changes from step to step. One of two slots in uncached memory; ids and positions follow
 * it at 16-byte aligned offsets of their own. */
struct ka_step {
	uint64_t step;  /* number the last kernel publishes */
	uint32_t n;     /* live tokens, <= the batch the packets were built for */
	uint32_t first; /* first column whose logits are wanted; written as column 0 */
	uint32_t zero;  /* what every other matmul uses for "first" */
	uint32_t pad[3];
};

/* What the last kernel of a step writes. */
struct ka_done {
	uint64_t step;
	uint32_t n, pad;
};

struct ka_embed { /* grid: x covers d, y tokens */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const int32_t) ids;
	KA_PTR(const uint8_t) w;
	KA_PTR(float) y;
	uint32_t d, row_bytes;
};

struct ka_rmsnorm { /* grid: x one group, y tokens */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const float) x;
	KA_PTR(const float) w;
	KA_PTR(float) y;
	uint32_t d;
	float eps, inv_d;
	uint32_t threads; /* work-items per group, a multiple of 32, <= 256 */
};

struct ka_matmul { /* grid: x covers rows (KA_MATMUL_GROUP_ROWS per group), y columns */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const uint32_t) first; /* &step->zero or &step->first */
	KA_PTR(const uint8_t) w;
	KA_PTR(const float) x;
	KA_PTR(float) y;
	uint32_t k, rows, row_bytes, pad;
};

struct ka_headnorm_rope { /* grid: x heads, y tokens; 32 work-items per group */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const float) x;
	KA_PTR(const float) w; /* 0: no norm */
	KA_PTR(const int32_t) pos;
	KA_PTR(const uint32_t) freq; /* [hd/2] pairs lo, hi: revolutions per position * 2^64 */
	KA_PTR(float) y;
	uint32_t hd, stride;
	float eps, inv_hd;
};

struct ka_kv_store { /* grid: x covers width, y tokens */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const float) x;
	KA_PTR(const int32_t) pos;
	KA_PTR(float) cache;
	uint32_t width, pad;
};

struct ka_attn { /* grid: x heads per KV head, y KV heads, z tokens (_x8: eights of them); 128
		  * work-items per group */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const float) q;
	KA_PTR(const float) kc;
	KA_PTR(const float) vc;
	KA_PTR(const int32_t) pos;
	KA_PTR(float) y;
	uint32_t per_kv; /* heads per KV head */
	uint32_t q_stride, kv_stride;
	float scale_log2e; /* log2(e) / sqrt(hd) */
};

struct ka_binary { /* add, silu_mul. grid: x covers width, y tokens */
	KA_PTR(const struct ka_step) step;
	KA_PTR(const float) a;
	KA_PTR(const float) b;
	KA_PTR(float) y;
	uint32_t width, pad;
};

struct ka_finish { /* one group of 32 */
	KA_PTR(const struct ka_step) step;
	KA_PTR(struct ka_done) done;
};

struct ka_copy { /* grid: x covers n */
	KA_PTR(void) dst;
	KA_PTR(const void) src;
	uint64_t n; /* of 16 bytes */
};
#define KA_COPY_GROUP 256
_Static_assert(sizeof(struct ka_copy) == 24, "ka_copy");

/* Shape of a matmul group: four waves, four rows each. */
#define KA_MATMUL_WAVES      4
#define KA_MATMUL_WAVE_ROWS  4
#define KA_MATMUL_GROUP_ROWS (KA_MATMUL_WAVES * KA_MATMUL_WAVE_ROWS)
#define KA_MATMUL_COLUMNS    4  /* of the _x4 kernels */
#define KA_MATMUL_WIDE       16 /* of the _x16 kernels, whose waves share rows */
#define KA_MATMUL_WIDE_ROWS  64
#define KA_ATTN_WAVES        4
#define KA_ATTN_WIDE         8 /* tokens of the _x8 kernels */

_Static_assert(sizeof(struct ka_step) == 32, "ka_step");
_Static_assert(sizeof(struct ka_done) == 16, "ka_done");
_Static_assert(sizeof(struct ka_embed) == 40, "ka_embed");
_Static_assert(sizeof(struct ka_rmsnorm) == 48, "ka_rmsnorm");
_Static_assert(sizeof(struct ka_matmul) == 56, "ka_matmul");
_Static_assert(sizeof(struct ka_headnorm_rope) == 64, "ka_headnorm_rope");
_Static_assert(sizeof(struct ka_kv_store) == 40, "ka_kv_store");
_Static_assert(sizeof(struct ka_attn) == 64, "ka_attn");
_Static_assert(sizeof(struct ka_binary) == 40, "ka_binary");
_Static_assert(sizeof(struct ka_finish) == 16, "ka_finish");
_Static_assert(__builtin_offsetof(struct ka_step, first) == 12, "ka_step.first");
_Static_assert(__builtin_offsetof(struct ka_step, zero) == 16, "ka_step.zero");
_Static_assert(__builtin_offsetof(struct ka_matmul, k) == 40, "ka_matmul.k");
_Static_assert(__builtin_offsetof(struct ka_headnorm_rope, hd) == 48, "ka_headnorm_rope.hd");
_Static_assert(__builtin_offsetof(struct ka_attn, per_kv) == 48, "ka_attn.per_kv");

#endif
