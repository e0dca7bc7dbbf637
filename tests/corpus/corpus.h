/* What generated kernels are written in: C that means the same on gfx1151 and on the host.
 *
 * Every operation is defined for every operand, and floats round once: no contraction, no libm.
 * NaNs have one pattern wherever their bits are looked at.
 */
#ifndef CORPUS_H
#define CORPUS_H

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u16 u16x2 __attribute__((ext_vector_type(2)));

#define ITEMS  64 /* of a workgroup */
#define GROUPS 2
#define IN     1024 /* dwords */
#define OUT    16   /* dwords of an item */
#define COUNTS 16

#ifdef __AMDGCN__
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL  __attribute__((address_space(3)))
#else
#define GLOBAL
#define LOCAL
#endif
#define INLINE   static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

/* One item's state between barriers. */
struct st {
	u32 u[6], a[8];
	u64 q[3];
	u16 h[3];
	u8 b[3];
	f32 f[4];
	f64 d[2];
	f16 e[3];
	u32x4 v[2];
	u16x2 w[2];
	u32 lid, gid;
};

/* A workgroup's LDS: slots written in one phase and read in the next, and counters. */
struct lds {
	u32 x[2][ITEMS];
	u64 y[2][ITEMS];
	u8 z[2][4 * ITEMS];
	u32 n[4];
};

/* An unsigned division of sign-extended narrow values must not be seen as one: LLVM 19 counts their
 * sign bits, finds that they fit into 24 bits, and divides them as floats, although as unsigned
 * numbers they do not fit. */
INLINE u32 apart(u32 a)
{
#ifdef __AMDGCN__
	__asm__ volatile("" : "+v"(a));
#endif
	return a;
}
INLINE u32 udiv(u32 a, u32 b)
{
	return b ? apart(a) / b : a;
}
INLINE u32 urem(u32 a, u32 b)
{
	return b ? apart(a) % b : b;
}
INLINE i32 sdiv(i32 a, i32 b)
{
	return b == 0 || b == -1 ? a : a / b;
}
INLINE u64 udiv64(u64 a, u64 b)
{
	return b ? a / b : a;
}
INLINE u32 rotl(u32 a, u32 n)
{
	return a << (n & 31) | a >> (-n & 31);
}
INLINE u32 clz(u32 a)
{
	return a ? (u32)__builtin_clz(a) : 32;
}
INLINE u32 ctz(u32 a)
{
	return a ? (u32)__builtin_ctz(a) : 32;
}
INLINE u32 mulhi(u32 a, u32 b)
{
	return (u32)((u64)a * b >> 32);
}
INLINE u32 addsat(u32 a, u32 b)
{
	return a + b < a ? ~0u : a + b;
}
INLINE f32 to_f32(u32 u)
{
	return __builtin_bit_cast(f32, u);
}
INLINE u32 bits32(f32 f)
{
	return f != f ? 0x7fc00000u : __builtin_bit_cast(u32, f);
}
INLINE f64 to_f64(u64 u)
{
	return __builtin_bit_cast(f64, u);
}
INLINE u64 bits64(f64 f)
{
	return f != f ? 0x7ff8000000000000ul : __builtin_bit_cast(u64, f);
}
INLINE f16 to_f16(u16 u)
{
	return __builtin_bit_cast(f16, u);
}
INLINE u16 bits16(f16 f)
{
	return f != f ? 0x7e00 : __builtin_bit_cast(u16, f);
}
/* LLVM 19 makes v_fma_mixlo_f16 a, b, 0 of (f16)(a * b): rounded once instead of twice, and +0 for
 * -0. The empty statement keeps the product apart. */
INLINE f16 cvt16(f32 f)
{
#ifdef __AMDGCN__
	__asm__ volatile("" : "+v"(f));
#endif
	return (f16)f;
}
INLINE u32 f2u(f32 f)
{
	return f >= 0.0f && f < 4294967296.0f ? (u32)f : 7u;
}
INLINE i32 f2i(f32 f)
{
	return f >= -2147483648.0f && f < 2147483648.0f ? (i32)f : -7;
}
INLINE u64 d2u(f64 f)
{
	return f >= 0.0 && f < 18446744073709551616.0 ? (u64)f : 7u;
}
INLINE f32 ordinary(u32 u) /* of magnitude 2^-16 .. 2^16 */
{
	return to_f32((u & 0x807fffffu) | (0x37800000u + (u >> 23 & 31) * 0x800000u));
}

/* State of an item before the first phase, and what is left of it behind the last. */
INLINE void st_begin(struct st *s, GLOBAL const u32 *in, u32 lid, u32 gid)
{
	u32 x = in[(gid * 7 + lid * 13) & (IN - 1)];

	s->lid = lid;
	s->gid = gid;
	for (u32 i = 0; i < 8; i++)
		s->a[i] = x ^ in[(lid + i * 5) & (IN - 1)];
	for (u32 i = 0; i < 6; i++)
		s->u[i] = in[(gid + i * 11) & (IN - 1)] + lid;
	for (u32 i = 0; i < 3; i++) {
		s->q[i] = (u64)s->u[i] << 32 | s->a[i];
		s->h[i] = (u16)s->a[i + 3];
		s->b[i] = (u8)s->a[i];
		s->e[i] = (f16)ordinary(s->a[i + 1]);
	}
	for (u32 i = 0; i < 4; i++)
		s->f[i] = i & 1 ? to_f32(s->u[i]) : ordinary(s->a[i]);
	for (u32 i = 0; i < 2; i++) {
		s->d[i] = i ? to_f64(s->q[i]) : (f64)ordinary(x);
		s->v[i] = (u32x4){x, s->u[i], s->a[i], lid};
		s->w[i] = (u16x2){(u16)x, (u16)s->u[i]};
	}
}

INLINE void st_end(const struct st *s, GLOBAL u32 *out)
{
	u32 k = 0;

#ifdef CORPUS_SMALL /* what nobody looks at is not computed */
	out[0] += s->u[0] ^ s->u[1] ^ s->u[2];
	out[2] += (u32)s->q[0];
	out[5] += bits32(s->f[0]);
	out[6] += bits32(s->f[1]);
	out[9] += (u32)(bits64(s->d[0]) >> 20);
	out[11] += bits16(s->e[0]);
	out[13] += s->v[0].x;
	return;
#endif
	for (u32 i = 0; i < 6; i++)
		k = rotl(k, 5) ^ s->u[i];
	out[0] += k;
	k = 0;
	for (u32 i = 0; i < 8; i++)
		k = rotl(k, 5) ^ s->a[i];
	out[1] += k;
	out[2] += (u32)(s->q[0] ^ s->q[1] ^ s->q[2]);
	out[3] += (u32)((s->q[0] ^ s->q[1] ^ s->q[2]) >> 32);
	out[4] += s->h[0] + s->h[1] * 3u + s->h[2] * 5u + s->b[0] + s->b[1] * 3u + s->b[2] * 5u;
	out[5] += bits32(s->f[0]);
	out[6] += bits32(s->f[1]);
	out[7] += bits32(s->f[2]);
	out[8] += bits32(s->f[3]);
	out[9] += (u32)bits64(s->d[0]) ^ (u32)(bits64(s->d[0]) >> 32);
	out[10] += (u32)bits64(s->d[1]) ^ (u32)(bits64(s->d[1]) >> 32);
	out[11] += bits16(s->e[0]) + bits16(s->e[1]) * 3u;
	out[12] += bits16(s->e[2]);
	out[13] += s->v[0].x ^ s->v[0].y ^ s->v[1].z;
	out[14] += s->v[0].z ^ s->v[0].w ^ s->v[1].x;
	out[15] += s->w[0].x ^ s->w[0].y ^ s->w[1].x * 3u;
}

#ifdef __AMDGCN__

static __attribute__((address_space(3), loader_uninitialized)) struct lds group_lds;

INLINE void barrier(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define KERNEL(seed, phases, p0, p1, p2)                                                           \
	__attribute__((amdgpu_kernel, visibility("protected"))) void k##seed(                      \
		GLOBAL const u32 *in, GLOBAL u32 *out, GLOBAL u32 *counts)                         \
	{                                                                                          \
		u32 lid = __builtin_amdgcn_workitem_id_x();                                        \
		u32 gid = __builtin_amdgcn_workgroup_id_x() * ITEMS + lid;                         \
		struct st s;                                                                       \
                                                                                                   \
		out += gid * OUT;                                                                  \
		if (lid < 4)                                                                       \
			group_lds.n[lid] = 0;                                                      \
		for (u32 i = 0; i < 4; i++)                                                        \
			group_lds.z[0][4 * lid + i] = group_lds.z[1][4 * lid + i] = (u8)i;         \
		barrier();                                                                         \
		st_begin(&s, in, lid, gid);                                                        \
		p0(&s, &group_lds, in, out, counts);                                               \
		barrier();                                                                         \
		if (phases > 1) {                                                                  \
			p1(&s, &group_lds, in, out, counts);                                       \
			barrier();                                                                 \
		}                                                                                  \
		if (phases > 2) {                                                                  \
			p2(&s, &group_lds, in, out, counts);                                       \
			barrier();                                                                 \
		}                                                                                  \
		st_end(&s, out);                                                                   \
		out[0] += group_lds.n[lid & 3];                                                    \
	}
#define KERNELS(list)

#else

#define KERNEL(seed, phases, p0, p1, p2)                                                           \
	static void k##seed(const u32 *in, u32 *out_all, u32 *counts)                              \
	{                                                                                          \
		static struct st s[ITEMS];                                                         \
		static struct lds l;                                                               \
                                                                                                   \
		for (u32 g = 0; g < GROUPS; g++) {                                                 \
			u32 *out = out_all + g * ITEMS * OUT;                                      \
                                                                                                   \
			for (u32 i = 0; i < 4; i++)                                                \
				l.n[i] = 0;                                                        \
			for (u32 i = 0; i < 4 * ITEMS; i++)                                        \
				l.z[0][i] = l.z[1][i] = (u8)(i & 3);                               \
			for (u32 i = 0; i < ITEMS; i++)                                            \
				st_begin(&s[i], in, i, g *ITEMS + i);                              \
			for (u32 i = 0; i < ITEMS; i++)                                            \
				p0(&s[i], &l, in, out + i * OUT, counts);                          \
			for (u32 i = 0; i < ITEMS && phases > 1; i++)                              \
				p1(&s[i], &l, in, out + i * OUT, counts);                          \
			for (u32 i = 0; i < ITEMS && phases > 2; i++)                              \
				p2(&s[i], &l, in, out + i * OUT, counts);                          \
			for (u32 i = 0; i < ITEMS; i++) {                                          \
				st_end(&s[i], out + i * OUT);                                      \
				out[i * OUT] += l.n[i & 3];                                        \
			}                                                                          \
		}                                                                                  \
	}

/* What the runner looks up. */
struct corpus_kernel {
	const char *name;
	void (*run)(const u32 *in, u32 *out, u32 *counts);
};
#define K(seed)       {"k" #seed, k##seed},
#define KERNELS(list) const struct corpus_kernel corpus_kernels[] = {list{0, 0}};

#endif

#endif
