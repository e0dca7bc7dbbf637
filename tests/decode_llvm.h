/* What LLVM 19's disassembler says of an instruction, in a normal form that text of either kind
 * can be compared in. */
#ifndef TESTS_DECODE_LLVM_H
#define TESTS_DECODE_LLVM_H

#include <criterion/criterion.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- LLVM ---------------------------------------------------------------- */

static void *ctx_default, *ctx_true16;
static size_t (*disasm)(void *, uint8_t *, uint64_t, uint64_t, char *, size_t);

static bool llvm_open(void)
{
	static const char *const names[] = {"libLLVM-19.so.1", "libLLVM.so.19.1",
					    "/usr/lib/llvm-19/lib/libLLVM.so.19.1"};
	static const char *const init[] = {"LLVMInitializeAMDGPUTargetInfo",
					   "LLVMInitializeAMDGPUTargetMC",
					   "LLVMInitializeAMDGPUDisassembler"};
	void *(*create)(const char *, const char *, const char *, void *, int, void *, void *);
	void *so = NULL;

	if (ctx_default)
		return true;
	for (unsigned i = 0; !so && i < 3; i++)
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return false;
	for (unsigned i = 0; i < 3; i++) {
		void (*f)(void) = (void (*)(void))dlsym(so, init[i]);

		if (!f)
			return false;
		f();
	}
	create = (__typeof__(create))dlsym(so, "LLVMCreateDisasmCPUFeatures");
	disasm = (__typeof__(disasm))dlsym(so, "LLVMDisasmInstruction");
	if (!create || !disasm)
		return false;
	ctx_default = create("amdgcn-amd-amdhsa", "gfx1151", "", NULL, 0, NULL, NULL);
	ctx_true16 = create("amdgcn-amd-amdhsa", "gfx1151", "+real-true16", NULL, 0, NULL, NULL);
	return ctx_default && ctx_true16;
}

/* Length in bytes, 0 if LLVM refuses or says an operand is invalid. */
static unsigned llvm(void *ctx, const uint32_t w[4], char *text, size_t n)
{
	char raw[600];
	unsigned len = disasm(ctx, (uint8_t *)w, 16, 0, raw, sizeof(raw));
	char *s = raw, *e;

	if (!len || strstr(raw, "/*Invalid") || strstr(raw, "is not supported") ||
	    strstr(raw, "/* Invalid")) {
		snprintf(text, n, "%s", len ? raw : "");
		return 0;
	}
	e = strstr(raw, " ; Warning"); /* misaligned SGPR tuples: rounded down, as here */
	if (e)
		*e = 0;
	e = strstr(raw, " ; 0");
	if (e)
		*e = 0;
	while (*s == '\t' || *s == ' ')
		s++;
	snprintf(text, n, "%s", s);
	return len;
}

/* ---- a normal form for LLVM's text --------------------------------------- */

struct norm {
	char op[64];     /* mnemonic without _e32, _e64, _dpp */
	char args[300];  /* operands: registers, small integers, K for other constants */
	uint8_t pre[12]; /* operand by operand: 1 negated, 2 absolute */
	unsigned npre;
	char mods[300]; /* sorted modifiers */
	/* op_sel, op_sel_hi, neg_lo, neg_hi: bits in order, empty if not printed */
	char sel[4][24];
};

static const char *const sel_names[4] = {"op_sel:[", "op_sel_hi:[", "neg_lo:[", "neg_hi:["};

static void add(char *to, size_t n, const char *s)
{
	size_t l = strlen(to);

	snprintf(to + l, n - l, "%s%s", l ? " " : "", s);
}

static void strip_suffix(char *s)
{
	static const char *const suffix[] = {"_dpp8", "_dpp", "_e32", "_e64"};

	for (unsigned again = 0; again < 2; again++)
		for (unsigned i = 0; i < 4; i++) {
			size_t l = strlen(s), m = strlen(suffix[i]);

			if (l > m && !strcmp(s + l - m, suffix[i]))
				s[l - m] = 0;
		}
}

static void add_arg(struct norm *o, const char *s, unsigned pre)
{
	add(o->args, sizeof(o->args), s);
	if (o->npre < 12)
		o->pre[o->npre++] = pre;
}

static bool is_mod(const char *t)
{
	static const char *const words[] = {"clamp", "glc", "slc", "dlc", "offen",
					    "idxen", "tfe", "gds", "lds", "sve"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(t, words[i]))
			return true;
	return strchr(t, ':') && !strchr("vst[-|", t[0]);
}

static bool is_mod_colon(const char *t)
{
	static const char *const heads[] = {
		"op_sel",   "neg_",      "mul:",       "div:",  "offset", "quad_perm",
		"row_",     "bank_mask", "bound_ctrl", "fi:",   "dpp8",   "format:",
		"row_mask", "wait_",     "dim:",       "dmask:"};

	for (unsigned i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (!strncmp(t, heads[i], strlen(heads[i])))
			return true;
	return false;
}

/* A constant operand as a small decimal integer or K. */
static void norm_const(const char *t, char *out, size_t n)
{
	char *end;
	long v = strtol(t, &end, 0);

	if (*end || v < -16 || v > 64)
		snprintf(out, n, "K");
	else
		snprintf(out, n, "%ld", v);
}

static bool is_reg(const char *t)
{
	if ((t[0] == 'v' || t[0] == 's') && (isdigit(t[1]) || t[1] == '['))
		return true;
	return !strncmp(t, "ttmp", 4) || !strncmp(t, "vcc", 3) || !strncmp(t, "exec", 4) ||
	       !strcmp(t, "m0") || !strcmp(t, "null") || !strncmp(t, "src_", 4) ||
	       !strcmp(t, "off");
}

static int cmp_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_mods(char *mods, size_t n)
{
	char buf[300], *tok[32] = {NULL}, *p, *save;
	unsigned k = 0;

	snprintf(buf, sizeof(buf), "%s", mods);
	for (p = strtok_r(buf, " ", &save); p && k < 32; p = strtok_r(NULL, " ", &save))
		tok[k++] = p;
	qsort(tok, k, sizeof(*tok), cmp_str);
	mods[0] = 0;
	for (unsigned i = 0; i < k; i++)
		add(mods, n, tok[i]);
}

static void norm_text(const char *text, struct norm *o)
{
	char buf[600], *p = buf, *save;
	bool first = true;

	memset(o, 0, sizeof(*o));
	snprintf(buf, sizeof(buf), "%s", text);
	/* split at blanks and commas outside brackets */
	for (int depth = 0; *p; p++) {
		depth += (*p == '[' || *p == '(') - (*p == ']' || *p == ')');
		if (*p == ',' && !depth)
			*p = ' ';
		if (*p == ' ' && depth)
			*p = '_';
	}
	for (p = strtok_r(buf, " \t", &save); p; p = strtok_r(NULL, " \t", &save)) {
		char t[64], *q = p;
		unsigned sel, pre = 0;
		size_t l;

		if (first) {
			snprintf(o->op, sizeof(o->op), "%s", p);
			strip_suffix(o->op);
			first = false;
			continue;
		}
		if (!strcmp(p, "::")) {
			add(o->args, sizeof(o->args), "::");
			continue;
		}
		if (!strncmp(p, "v_dual", 6)) {
			add(o->args, sizeof(o->args), p);
			continue;
		}
		for (sel = 0; sel < 4; sel++)
			if (!strncmp(p, sel_names[sel], strlen(sel_names[sel])))
				break;
		if (sel < 4) {
			for (q = p + strlen(sel_names[sel]); *q; q++)
				if (isdigit(*q))
					snprintf(o->sel[sel] + strlen(o->sel[sel]), 2, "%c", *q);
			continue;
		}
		if (!strncmp(p, "format:", 7)) /* a name; tests of MTBUF read the number */
			continue;
		if (is_mod_colon(p) || is_mod(p)) {
			if (!strncmp(p, "offset:", 7)) {
				snprintf(t, sizeof(t), "offset:%ld", strtol(p + 7, NULL, 0));
				p = t;
			}
			add(o->mods, sizeof(o->mods), p);
			continue;
		}
		if (!strncmp(q, "sext(", 5)) { /* the same bit on an integer operand */
			pre |= 1;
			q += 5;
		} else if (!strncmp(q, "neg(", 4)) {
			pre |= 1;
			q += 4;
		} else if (*q == '-' && (is_reg(q + 1) || q[1] == '|')) {
			pre |= 1;
			q++;
		}
		if (*q == '|') {
			pre |= 2;
			q++;
		}
		snprintf(t, sizeof(t), "%s", q);
		for (l = strlen(t); l && (t[l - 1] == '|' || t[l - 1] == ')'); l--)
			t[l - 1] = 0;
		if (!is_reg(t)) {
			char k[16];

			norm_const(t, k, sizeof(k));
			snprintf(t, sizeof(t), "%s", k);
		}
		add_arg(o, t, pre);
	}
	sort_mods(o->mods, sizeof(o->mods));
}

#endif
