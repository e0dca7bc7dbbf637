/* Freestanding device C for gfx1151 (clang-19, wave32, no device library). */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "kernels/kernargs.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef _Float16 f16;
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f2 __attribute__((ext_vector_type(2)));
typedef u32 u4 __attribute__((ext_vector_type(4)));
typedef u32 u2 __attribute__((ext_vector_type(2)));
typedef f16 h8 __attribute__((ext_vector_type(8)));

#define GLOBAL __attribute__((address_space(1)))
#define LDS    static __attribute__((address_space(3), loader_uninitialized))
#define INLINE static inline __attribute__((always_inline))
/* C has no way to state a kernel's group size (the attribute is OpenCL's and HIP's): the compiler
 * assumes up to 1024 work-items and the host keeps to the shape kernargs.h states. */
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void

#define TID  __builtin_amdgcn_workitem_id_x()
#define LANE (TID & 31)
#define GIDX __builtin_amdgcn_workgroup_id_x()
#define GIDY __builtin_amdgcn_workgroup_id_y()
#define GIDZ __builtin_amdgcn_workgroup_id_z()

/* The wave's number in its group, as a scalar: the compiler cannot know that it is uniform. */
#define WAVE ((u32)__builtin_amdgcn_readfirstlane((i32)(TID >> 5)))

#define LOAD(type, p, byte) (*(GLOBAL const type *)((GLOBAL const u8 *)(p) + (byte)))

/* Workgroup barrier: LDS writes before it are visible to every wave after it. */
INLINE void barrier(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* DPP row_xmask:m takes the value of lane ^ m (m < 16). A macro because m must be a constant. */
#define LANE_XOR(v, m)                                                                             \
	__builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(i32, v),       \
							      0x160 | (m), 0xf, 0xf, 1))

/* The value of lane ^ 16. LLVM 19 does not know that v_permlanex16 must not move under a smaller
 * exec mask and sinks it into "if (lane == 0)", where the partner lane is off and the old value is
 * kept. The empty statement uses the result here, so it has to be computed here. */
INLINE float other_row(float v)
{
	i32 i = __builtin_bit_cast(i32, v);
	i32 o = __builtin_amdgcn_permlanex16(i, i, 0x76543210, 0xfedcba98, 0, 0);

	__asm__ volatile("" : "+v"(o));
	return __builtin_bit_cast(float, o);
}

INLINE float wave_sum(float v)
{
	v += LANE_XOR(v, 1);
	v += LANE_XOR(v, 2);
	v += LANE_XOR(v, 4);
	v += LANE_XOR(v, 8);
	return v + other_row(v);
}

INLINE float wave_max(float v)
{
	v = __builtin_fmaxf(v, LANE_XOR(v, 1));
	v = __builtin_fmaxf(v, LANE_XOR(v, 2));
	v = __builtin_fmaxf(v, LANE_XOR(v, 4));
	v = __builtin_fmaxf(v, LANE_XOR(v, 8));
	return __builtin_fmaxf(v, other_row(v));
}

/* Four sums over the wave for the price of two: lane i ends with the sum of v[i & 3]. Each step
 * keeps in a lane the half it will own and hands the other half to its partner. */
INLINE float wave_sum4(const float v[4], u32 lane)
{
	u32 b0 = lane & 1, b1 = lane & 2;
	float k01 = b0 ? v[1] : v[0], g01 = b0 ? v[0] : v[1];
	float k23 = b0 ? v[3] : v[2], g23 = b0 ? v[2] : v[3];
	float s01 = k01 + LANE_XOR(g01, 1), s23 = k23 + LANE_XOR(g23, 1);
	float k = b1 ? s23 : s01, g = b1 ? s01 : s23;
	float s = k + LANE_XOR(g, 2);

	s += LANE_XOR(s, 4);
	s += LANE_XOR(s, 8);
	return s + other_row(s);
}

/* v, with nothing known about it. */
INLINE u32 opaque(u32 v)
{
	__asm__("" : "+v"(v));
	return v;
}

#define NEG_INF (-__builtin_inff())
#define LOG2E   1.44269504088896340736f

#endif
