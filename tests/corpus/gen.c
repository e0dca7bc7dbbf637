/* Writes random kernels: corpus_gen FIRST COUNT [small] > kernels.c
 *
 * small: a few statements each, for what is slow per instruction (compiling them again).
 *
 * Each seed is one kernel of a few phases with barriers between them, as a function of one item's
 * state. The device runs the phases one after the other in every work-item; the host runs a phase
 * for all items of a workgroup before the next. Items write their own slots; what they share
 * (counters, LDS of the phase before) does not depend on their order. See corpus.h. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rng_state;

static uint32_t rng(void)
{
	rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng_state >> 33);
}

static unsigned pick(unsigned n)
{
	return rng() % n;
}

/* What the statement being written may use. */
static struct {
	unsigned seed, phase, loops; /* phase 0: LDS holds nothing yet */
	bool call;
} at;

#define P(...)    printf(__VA_ARGS__)
#define OUT_SLOTS 16 /* corpus.h: OUT */

static void u32_expr(unsigned depth);
static void u64_expr(unsigned depth);
static void f32_expr(unsigned depth);
static void f64_expr(unsigned depth);
static void f16_expr(unsigned depth);
static void vec_expr(unsigned depth);

static void u32_const(void)
{
	static const uint32_t odd[] = {0,  1,      2,       0xff,       0x7fffffff, 0x80000000,
				       64, 0xffff, 0x10000, 0xffffffff, 0x55555555, 31};

	P("%uu", pick(3) ? odd[pick(12)] : rng());
}

static void two(const char *before, void (*e)(unsigned), unsigned depth, const char *between,
		void (*f)(unsigned), const char *behind)
{
	P("%s", before);
	e(depth - 1);
	P("%s", between);
	f(depth - 1);
	P("%s", behind);
}

static void one(const char *before, void (*e)(unsigned), unsigned depth, const char *behind)
{
	P("%s", before);
	e(depth - 1);
	P("%s", behind);
}

static void u32_leaf(void)
{
	switch (pick(11)) {
	case 0:
		u32_const();
		break;
	case 1:
		P("s->lid");
		break;
	case 2:
		P("s->gid");
		break;
	case 3:
		P("(u32)s->h[%u]", pick(3));
		break;
	case 4:
		P("(u32)(i8)s->b[%u]", pick(3));
		break;
	case 5:
		P("(u32)(i16)s->h[%u]", pick(3));
		break;
	case 6:
		P("s->v[%u].%c", pick(2), "xyzw"[pick(4)]);
		break;
	case 7:
		if (at.loops) {
			P("i%u", pick(at.loops));
			break;
		}
		/* fall through */
	default:
		P("s->u[%u]", pick(6));
	}
}

static void u32_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * ", " & ", " | ", " ^ "};
	static const char *const call[] = {"udiv(", "urem(", "rotl(", "mulhi(", "addsat("};
	static const char *const compare[] = {" < ", " == ", " >= ", " != "};

	if (!d || !pick(5)) {
		u32_leaf();
		return;
	}
	switch (pick(24)) {
	case 0:
		two("(", u32_expr, d, " << (", u32_expr, " & 31))");
		break;
	case 1:
		two("(", u32_expr, d, " >> (", u32_expr, " & 31))");
		break;
	case 2:
		two("(u32)((i32)", u32_expr, d, " >> (", u32_expr, " & 31))");
		break;
	case 3:
		two(call[pick(5)], u32_expr, d, ", ", u32_expr, ")");
		break;
	case 4:
		two("(u32)sdiv((i32)", u32_expr, d, ", (i32)", u32_expr, ")");
		break;
	case 5:
		two("(u32)(", u32_expr, d, compare[pick(4)], u32_expr, ")");
		break;
	case 6:
		two("(u32)((i32)", u32_expr, d, pick(2) ? " < (i32)" : " > (i32)", u32_expr, ")");
		break;
	case 7:
		two("(", u32_expr, d, " > ", u32_expr, " ? ");
		two("", u32_expr, d, " : ", u32_expr, ")");
		break;
	case 8:
		one(pick(2) ? "clz(" : "ctz(", u32_expr, d, ")");
		break;
	case 9:
		one(pick(2) ? "(u32)__builtin_popcount(" : "__builtin_bswap32(", u32_expr, d, ")");
		break;
	case 10:
		one("__builtin_bitreverse32(", u32_expr, d, ")");
		break;
	case 11:
		one(pick(2) ? "bits32(" : "f2u(", f32_expr, d, ")");
		break;
	case 12:
		one("(u32)f2i(", f32_expr, d, ")");
		break;
	case 13:
		one("(u32)(", u64_expr, d, pick(2) ? ")" : " >> 32)");
		break;
	case 14:
		two("(u32)(", f32_expr, d, compare[pick(4)], f32_expr, ")");
		break;
	case 15:
		two("(u32)(", f64_expr, d, compare[pick(4)], f64_expr, ")");
		break;
	case 16:
		one("(u32)bits16(", f16_expr, d, ")");
		break;
	case 17:
		one("s->a[", u32_expr, d, " & 7]");
		break;
	case 18:
		one("in[", u32_expr, d, " & (IN - 1)]");
		break;
	case 19: /* narrow loads, also unaligned to a dword */
		switch (pick(4)) {
		case 0:
			one("(u32)((GLOBAL const u8 *)in)[", u32_expr, d, " & (4 * IN - 1)]");
			break;
		case 1:
			one("(u32)((GLOBAL const i8 *)in)[", u32_expr, d, " & (4 * IN - 1)]");
			break;
		case 2:
			one("(u32)((GLOBAL const i16 *)in)[", u32_expr, d, " & (2 * IN - 1)]");
			break;
		default:
			one("(u32)((GLOBAL const u16 *)in)[", u32_expr, d, " & (2 * IN - 1)]");
		}
		break;
	case 20: /* what another item left in the phase before */
		if (!at.phase) {
			u32_leaf();
			break;
		}
		switch (pick(3)) {
		case 0:
			P("l->x[%u]", (at.phase - 1) & 1);
			one("[", u32_expr, d, " & (ITEMS - 1)]");
			break;
		case 1:
			P("(u32)l->y[%u]", (at.phase - 1) & 1);
			one("[", u32_expr, d, " & (ITEMS - 1)]");
			break;
		default:
			P("(u32)l->z[%u]", (at.phase - 1) & 1);
			one("[", u32_expr, d, " & (4 * ITEMS - 1)]");
		}
		break;
	case 21:
		if (at.call) {
			P("fn%u_%u(s, in, ", at.seed, pick(2));
			two("", u32_expr, d, ", ", f32_expr, ")");
			break;
		}
		/* fall through */
	default:
		two("(", u32_expr, d, binary[pick(6)], u32_expr, ")");
	}
}

static void u64_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * ", " & ", " | ", " ^ "};

	if (!d || !pick(5)) {
		P("s->q[%u]", pick(3));
		return;
	}
	switch (pick(10)) {
	case 0:
		two("(", u64_expr, d, " << (", u32_expr, " & 63))");
		break;
	case 1:
		two("(", u64_expr, d, " >> (", u32_expr, " & 63))");
		break;
	case 2:
		two("(u64)((i64)", u64_expr, d, " >> (", u32_expr, " & 63))");
		break;
	case 3:
		two("((u64)", u32_expr, d, " * ", u32_expr, ")");
		break;
	case 4:
		two("(u64)((i64)(i32)", u32_expr, d, " * (i32)", u32_expr, ")");
		break;
	case 5:
		one("bits64(", f64_expr, d, ")");
		break;
	case 6:
		one("d2u(", f64_expr, d, ")");
		break;
	case 7:
		two("udiv64(", u64_expr, d, ", ", u64_expr, ")");
		break;
	case 8:
		one("((GLOBAL const u64 *)in)[", u32_expr, d, " & (IN / 2 - 1)]");
		break;
	default:
		two("(", u64_expr, d, binary[pick(6)], u64_expr, ")");
	}
}

static void f32_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * ", " / "};
	static const char *const unary[] = {"__builtin_sqrtf(",  "__builtin_fabsf(",
					    "__builtin_floorf(", "__builtin_ceilf(",
					    "__builtin_truncf(", "__builtin_rintf("};

	if (!d || !pick(5)) {
		P("s->f[%u]", pick(4));
		return;
	}
	switch (pick(13)) {
	case 0:
		one(unary[pick(6)], f32_expr, d, ")");
		break;
	case 1:
		two("__builtin_fmaf(", f32_expr, d, ", ", f32_expr, ", ");
		one("", f32_expr, d, ")");
		break;
	case 2:
		one("(f32)", u32_expr, d, "");
		break;
	case 3:
		one("(f32)(i32)", u32_expr, d, "");
		break;
	case 4:
		one("(f32)", f64_expr, d, "");
		break;
	case 5:
		one("(f32)", f16_expr, d, "");
		break;
	case 6:
		one(pick(2) ? "ordinary(" : "to_f32(", u32_expr, d, ")");
		break;
	case 7:
		one(pick(2) ? "(f32)" : "(f32)(i64)", u64_expr, d, "");
		break;
	case 8:
		two("(", f32_expr, d, " < ", f32_expr, " ? ");
		two("", f32_expr, d, " : -", f32_expr, ")");
		break;
	default:
		two("(", f32_expr, d, binary[pick(4)], f32_expr, ")");
	}
}

static void f64_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * ", " / "};
	static const char *const unary[] = {"__builtin_sqrt(",  "__builtin_fabs(",
					    "__builtin_floor(", "__builtin_trunc(",
					    "__builtin_rint(",  "-("};

	if (!d || !pick(5)) {
		P("s->d[%u]", pick(2));
		return;
	}
	switch (pick(9)) {
	case 0:
		one(unary[pick(6)], f64_expr, d, ")");
		break;
	case 1:
		two("__builtin_fma(", f64_expr, d, ", ", f64_expr, ", ");
		one("", f64_expr, d, ")");
		break;
	case 2:
		one("(f64)", f32_expr, d, "");
		break;
	case 3:
		one(pick(2) ? "(f64)" : "(f64)(i32)", u32_expr, d, "");
		break;
	case 4:
		one(pick(2) ? "(f64)" : "(f64)(i64)", u64_expr, d, "");
		break;
	case 5:
		one("to_f64(", u64_expr, d, ")");
		break;
	default:
		two("(", f64_expr, d, binary[pick(4)], f64_expr, ")");
	}
}

static void f16_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * "};

	if (!d || !pick(4)) {
		P("s->e[%u]", pick(3));
		return;
	}
	switch (pick(6)) {
	case 0:
		one("cvt16(", f32_expr, d, ")");
		break;
	case 1:
		one("to_f16((u16)", u32_expr, d, ")");
		break;
	case 2:
		two("(", f16_expr, d, " < ", f16_expr, " ? ");
		two("", f16_expr, d, " : (f16)-", f16_expr, ")");
		break;
	default:
		two("(f16)(", f16_expr, d, binary[pick(3)], f16_expr, ")");
	}
}

static void vec_expr(unsigned d)
{
	static const char *const binary[] = {" + ", " - ", " * ", " & ", " | ", " ^ "};
	static const char *const order[] = {"yzwx", "wzyx", "xxzz", "yxwz"};

	if (!d || !pick(4)) {
		P("s->v[%u]", pick(2));
		return;
	}
	switch (pick(7)) {
	case 0:
		one("((u32x4)", u32_expr, d, ")");
		break;
	case 1:
		two("(", vec_expr, d, " >> (", vec_expr, " & 31u))");
		break;
	case 2:
		one("(", vec_expr, d, ")");
		P(".%s", order[pick(4)]);
		break;
	case 3:
		two("(u32x4)(", vec_expr, d, " > ", vec_expr, ")");
		break;
	case 4:
		one("((GLOBAL const u32x4 *)in)[", u32_expr, d, " & (IN / 4 - 1)]");
		break;
	default:
		two("(", vec_expr, d, binary[pick(6)], vec_expr, ")");
	}
}

/* ---- statements ---------------------------------------------------------- */

static void indent(unsigned n)
{
	while (n--)
		P("\t");
}

static void assign(unsigned tab)
{
	static const char *const update[] = {" = ", " += ", " ^= ", " -= "};
	const char *u = update[pick(4)];

	indent(tab);
	switch (pick(15)) {
	case 0:
		P("s->q[%u]%s", pick(3), u);
		u64_expr(3);
		break;
	case 1:
		P("s->h[%u]%s(u16)", pick(3), u);
		u32_expr(2);
		break;
	case 2:
		P("s->b[%u]%s(u8)", pick(3), u);
		u32_expr(2);
		break;
	case 3:
	case 4:
		P("s->f[%u] = ", pick(4));
		f32_expr(3);
		break;
	case 5:
		P("s->d[%u] = ", pick(2));
		f64_expr(2);
		break;
	case 6:
		P("s->e[%u] = ", pick(3));
		f16_expr(3);
		break;
	case 7:
		P("s->v[%u]%s", pick(2), u);
		vec_expr(2);
		break;
	case 8:
		P("s->w[%u]%s", pick(2), u);
		P("s->w[%u] * (u16)%uu + s->w[%u]", pick(2), pick(65536), pick(2));
		break;
	case 9:
	case 10:
		P("s->a[");
		u32_expr(2);
		P(" & 7]%s", u);
		u32_expr(2);
		break;
	default:
		P("s->u[%u]%s", pick(6), u);
		u32_expr(4);
	}
	P(";\n");
}

/* Counter k always sees the same operation, so the order of items does not matter. */
static void count(unsigned tab)
{
	static const char *const op[] = {"add", "or", "and", "xor", "max", "min", "add", "sub"};
	unsigned k = pick(16);

	indent(tab);
	if (at.phase && !pick(3)) {
		P("__atomic_fetch_add(&l->n[%u], ", pick(4));
		u32_expr(2);
	} else if (k >= 14) {
		P("__atomic_fetch_add((GLOBAL u64 *)&counts[14], ");
		u64_expr(2);
	} else {
		P("__atomic_fetch_%s(%s&counts[%u], ", op[k % 8],
		  k >= 8 && k < 12 ? "(GLOBAL i32 *)" : "", k);
		u32_expr(2);
	}
	P(", __ATOMIC_RELAXED);\n");
}

static void store(unsigned tab)
{
	unsigned k = pick(OUT_SLOTS);

	indent(tab);
	switch (pick(5)) {
	case 0:
		P("((GLOBAL u8 *)out)[%u] = (u8)", 4 * k + pick(4));
		u32_expr(2);
		break;
	case 1:
		P("((GLOBAL u16 *)out)[%u] = (u16)", 2 * k + pick(2));
		u32_expr(2);
		break;
	case 2:
		P("((GLOBAL u64 *)out)[%u] = ", k / 2);
		u64_expr(2);
		break;
	case 3:
		P("((GLOBAL u32x4 *)out)[%u] = ", k / 4);
		vec_expr(2);
		break;
	default:
		P("out[%u] %s ", k, pick(2) ? "=" : "+=");
		u32_expr(2);
	}
	P(";\n");
}

static void statements(unsigned n, unsigned tab, unsigned nest, bool memory);

static void statement(unsigned tab, unsigned nest, bool memory)
{
	unsigned i = at.loops;

	switch (nest ? pick(11) : 10) {
	case 0:
	case 1:
		indent(tab);
		P("if (");
		u32_expr(3);
		P(" & %u) {\n", 1 + pick(7));
		statements(1 + pick(3), tab + 1, nest - 1, memory);
		indent(tab);
		if (pick(2)) {
			P("} else {\n");
			statements(1 + pick(3), tab + 1, nest - 1, memory);
			indent(tab);
		}
		P("}\n");
		break;
	case 2:
	case 3:
		indent(tab);
		P("for (u32 i%u = 0, n%u = ", i, i);
		if (pick(3))
			u32_expr(2);
		else
			P("%u", pick(8));
		P(" & 7; i%u < n%u; i%u++) {\n", i, i, i);
		at.loops++;
		statements(1 + pick(3), tab + 1, nest - 1, false);
		if (pick(2)) {
			indent(tab + 1);
			P("if (");
			u32_expr(2);
			P(" & %u)\n", 1 + pick(15));
			indent(tab + 2);
			P("%s;\n", pick(2) ? "break" : "continue");
			statements(1, tab + 1, 0, false);
		}
		at.loops--;
		indent(tab);
		P("}\n");
		break;
	case 4:
		indent(tab);
		P("switch (");
		u32_expr(2);
		P(" & 3) {\n");
		for (unsigned c = 0; c < 3; c++) {
			indent(tab);
			P("case %u:\n", c);
			statements(1 + pick(2), tab + 1, nest - 1, memory);
			if (pick(4)) {
				indent(tab + 1);
				P("break;\n");
			}
		}
		indent(tab);
		P("default:\n");
		statements(1, tab + 1, 0, memory);
		indent(tab);
		P("}\n");
		break;
	case 5:
		if (memory) {
			count(tab);
			break;
		}
		/* fall through */
	case 6:
		if (memory) {
			store(tab);
			break;
		}
		/* fall through */
	default:
		assign(tab);
	}
}

static void statements(unsigned n, unsigned tab, unsigned nest, bool memory)
{
	while (n--)
		statement(tab, nest, memory);
}

/* ---- one kernel ---------------------------------------------------------- */

static void callee(unsigned i)
{
	at.call = false;
	P("NOINLINE u32 fn%u_%u(struct st *s, GLOBAL const u32 *in, u32 p, f32 g)\n{\n", at.seed,
	  i);
	P("\ts->u[%u] += p;\n\ts->f[%u] = g;\n", pick(6), pick(4));
	statements(1 + pick(3), 1, 1, false);
	P("\treturn ");
	u32_expr(3);
	P(";\n}\n\n");
}

static void kernel(unsigned seed, bool small)
{
	unsigned phases;
	bool calls;

	rng_state = seed * 0x9e3779b97f4a7c15u + 1;
	for (unsigned i = 0; i < 4; i++)
		rng();
	at.seed = seed;
	at.phase = at.loops = 0;
	phases = small ? 1 + !pick(4) : 1 + pick(3);
	calls = !pick(3) && !small;
	if (calls) {
		callee(0);
		callee(1);
	}
	for (unsigned p = 0; p < phases; p++) {
		at.phase = p;
		at.call = calls;
		P("INLINE void phase%u_%u(struct st *s, LOCAL struct lds *l, GLOBAL const u32 "
		  "*in,\n"
		  "\t\t\tGLOBAL u32 *out, GLOBAL u32 *counts)\n{\n",
		  seed, p);
		P("\t(void)l;\n\t(void)in;\n\t(void)out;\n\t(void)counts;\n");
		statements(small ? 1 + pick(2) : 2 + pick(4), 1, small ? 1 : 2, true);
		P("\tl->x[%u][s->lid] = s->u[%u];\n", p & 1, pick(6));
		P("\tl->y[%u][s->lid] = s->q[%u];\n", p & 1, pick(3));
		P("\tl->z[%u][4 * s->lid + %u] = s->b[%u];\n", p & 1, pick(4), pick(3));
		P("}\n\n");
	}
	P("KERNEL(%u, %u, phase%u_0", seed, phases, seed);
	for (unsigned p = 1; p < 3; p++)
		P(", phase%u_%u", seed, p < phases ? p : 0);
	P(")\n\n");
}

int main(int argc, char **argv)
{
	bool small = argc == 4 && !strcmp(argv[3], "small");
	unsigned first, n;

	if (argc != 3 && !small) {
		fprintf(stderr, "usage: corpus_gen FIRST COUNT [small]\n");
		return 2;
	}
	first = (unsigned)strtoul(argv[1], NULL, 0);
	n = (unsigned)strtoul(argv[2], NULL, 0);
	P("/* Seeds %u to %u. */\n%s#include \"corpus.h\"\n\n", first, first + n - 1,
	  small ? "#define CORPUS_SMALL\n" : "");
	for (unsigned i = 0; i < n; i++)
		kernel(first + i, small);
	P("KERNELS(");
	for (unsigned i = 0; i < n; i++)
		P("K(%u)%s", first + i, i + 1 < n ? " " : "");
	P(")\n");
	return 0;
}
