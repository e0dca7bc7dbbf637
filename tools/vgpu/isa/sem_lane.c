/* Operations across lanes. Those that see the whole wave (OPF_ONCE) run once for both halves. */
#include "isa/valu.h"

/* Lanes are picked out of and put into register values, never reached through a pointer with the
 * lane in it: compiled code can keep the registers out of memory then. */
static inline v32u *half_reg(const struct isa_exec *x, unsigned code, unsigned half)
{
	unsigned r = code - OPR_VGPR0, n = isa_nvgpr(x);

	return &x->w->v[(half ? n : 0) + (r < n ? r : 0)];
}

static inline uint32_t lane_get(const struct isa_exec *x, unsigned code, unsigned lane)
{
	/* Volatile, or LLVM turns "load all, pick one" back into a load through a pointer. */
	volatile union {
		v32u v;
		uint32_t lane[32];
	} u;

	u.v = *half_reg(x, code, 0);
	if (x->w->wave64 && lane >= 32)
		u.v = *half_reg(x, code, 1);
	return u.lane[lane & 31];
}

static inline v32u lanes(void)
{
	v32u r;

	for (unsigned l = 0; l < 32; l++)
		r[l] = l;
	return r;
}

static inline void lane_put(const struct isa_exec *x, unsigned code, unsigned lane, uint32_t value)
{
	v32u *lo = half_reg(x, code, 0), *hi;

	if (code - OPR_VGPR0 >= isa_nvgpr(x))
		return;
	*lo = usel(lanes() == lane, splat(value), *lo);
	if (x->w->wave64) {
		hi = half_reg(x, code, 1);
		*hi = usel(lanes() + 32u == lane, splat(value), *hi);
	}
}

static inline unsigned lane_mask(const struct isa_exec *x)
{
	return x->w->wave64 ? 63 : 31;
}

/* Source 0 is a VGPR; a scalar or constant has the same value in every lane. */
static inline uint32_t read_lane(const struct isa_exec *x, const struct isa_insn *in, unsigned lane)
{
	unsigned code = in->src[0];

	return code >= OPR_VGPR0 ? lane_get(x, code, lane) : isa_sread(x, in, code);
}

VALU_SEM(V_READFIRSTLANE_B32)
{
	uint64_t exec = x->w->wave64 ? x->w->exec : (uint32_t)x->w->exec;

	isa_swrite(x, in->dst, read_lane(x, in, exec ? (unsigned)__builtin_ctzll(exec) : 0));
}

VALU_SEM(V_READLANE_B32)
{
	unsigned lane = isa_sread(x, in, in->src[1]) & lane_mask(x);

	isa_swrite(x, in->dst, read_lane(x, in, lane));
}

VALU_SEM(V_WRITELANE_B32)
{
	unsigned lane = isa_sread(x, in, in->src[1]) & lane_mask(x);

	lane_put(x, in->dst, lane, isa_sread(x, in, in->src[0]));
}

/* Swaps the halves of a wave64; nothing in a wave32. */
VALU_SEM(V_PERMLANE64_B32)
{
	struct isa_wave *w = x->w;
	unsigned s = in->src[0] - OPR_VGPR0, d = in->dst - OPR_VGPR0, n = isa_nvgpr(x);
	v32u lo, hi;

	if (!w->wave64)
		return;
	s = s < n ? s : 0;
	d = d < n ? d : 0;
	lo = w->v[s];
	hi = w->v[n + s];
	valu_write(&w->v[d], (uint32_t)w->exec, hi);
	valu_write(&w->v[n + d], (uint32_t)(w->exec >> 32), lo);
}

/* Any lane of the own row (other = 0) or of the neighbouring row (other = 16) of 16. op_sel[0]
 * (fi): read inactive lanes; op_sel[1] (bound_ctrl): they give zero, else the lane stays. */
static void permlane16(struct isa_exec *x, const struct isa_insn *in, unsigned other)
{
	uint32_t lo = isa_sread(x, in, in->src[1]), hi = isa_sread(x, in, in->src[2]);
	uint32_t exec = isa_exec_mask(x), write = exec;
	v32u lane = lanes(), from, r;

	from = usel((lane & 8u) != 0u, splat(hi), splat(lo)) >> ((lane & 7u) * 4u) & 15u;
	from |= (lane & 16u) ^ other;
	r = valu_row_permute(isa_vread(x, in, in->src[0]), from);
	if (!(in->op_sel & 1)) {
		v32i valid = valu_lane_bits(exec, from);

		r &= U(valid);
		if (!(in->op_sel & 2))
			write &= isa_gather(valid);
	}
	isa_vwrite(x, in->dst, write, r);
}

VALU_SEM(V_PERMLANE16_B32)
{
	permlane16(x, in, 0);
}

VALU_SEM(V_PERMLANEX16_B32)
{
	permlane16(x, in, 16);
}

static inline v32u popcount(v32u a)
{
	a = a - (a >> 1 & 0x55555555u);
	a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
	a = (a + (a >> 4)) & 0x0f0f0f0fu;
	return (a * 0x01010101u) >> 24;
}

/* Lanes below this one, within one half. */
static inline v32u below(void)
{
	v32u r;

	for (unsigned l = 0; l < 32; l++)
		r[l] = (1u << l) - 1;
	return r;
}

/* Bits of source 0 for the lanes 0..31 below this lane, plus source 1. */
VALU_SEM(V_MBCNT_LO_U32_B32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT, 0, 0);
	const v32u a = *valu_src(&v, 0, K_B32);
	const v32u b = *valu_src(&v, 1, K_B32);
	valu_out(&v, K_B32, popcount(x->half ? a : a & below()) + b);
}

/* The same for the lanes 32..63. */
VALU_SEM(V_MBCNT_HI_U32_B32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT, 0, 0);
	const v32u a = *valu_src(&v, 0, K_B32);
	const v32u b = *valu_src(&v, 1, K_B32);
	valu_out(&v, K_B32, (x->half ? popcount(a & below()) : splat(0)) + b);
}
