/* From control flow to machine code, through LLVM 19's C API.
 *
 * One function per kernel. The wave and the execution context are copied into locals that never
 * escape, and every instruction is a call of its sem function with a constant instruction, to be
 * inlined: what the encoding decides folds away, and LLVM's scalar replacement turns the local
 * wave into values. So registers live in machine registers across blocks and loops, and go back
 * to memory where the function is left.
 *
 * Each block exists twice: for EXEC all ones, where masks vanish, and for any EXEC (the latter not
 * where waves of the shape have all lanes on; they leave if they do not). EXEC is looked at once per
 * block; an instruction that changes it ends its block (jit_cfg.c).
 *
 * This is code of vgpu-jitc, the compiler's own process (jit_server.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "isa/decode.h"
#include "isa/jit_internal.h"

static struct {
#define X(f) __typeof__(&f) f;
#include "isa/jit_llvm_calls.def"
#undef X
} L;

static struct {
	pthread_mutex_t lock; /* LLJIT and the target machine are used by one compile at a time */
	bool tried, ready;
	char why[160];
	LLVMTargetMachineRef tm;
	char *cpu, *features;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int whyf(char *why, size_t n, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static int whyf(char *why, size_t n, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, n, fmt, ap);
	va_end(ap);
	return err;
}

static int take_error(LLVMErrorRef e, const char *what, char *why, size_t n)
{
	char *m;

	if (!e)
		return 0;
	m = L.LLVMGetErrorMessage(e);
	whyf(why, n, 0, "%s: %s", what, m);
	L.LLVMDisposeErrorMessage(m);
	return -EIO;
}

static int load_llvm(void)
{
	static const char *const names[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so"};
	void *h = NULL;

	/* When it is missing, that is what the device is told, for every kernel. */
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names) && !h; i++)
		h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	if (!h)
		return whyf(host.why, sizeof(host.why), -ENOENT, "no LLVM 19 library: %s",
			    dlerror());
#define X(f)                                                                                       \
	L.f = (__typeof__(L.f))dlsym(h, #f);                                                       \
	if (!L.f)                                                                                  \
		return whyf(host.why, sizeof(host.why), -ENOENT, "LLVM library has no " #f);
#include "isa/jit_llvm_calls.def"
#undef X
	return 0;
}

/* With host.lock held. */
static int host_init(char *why, size_t n)
{
	LLVMTargetRef target;
	char *triple, *msg = NULL;
	int r;

	if (host.tried)
		return host.ready ? 0 : whyf(why, n, -ENOENT, "%s", host.why);
	host.tried = true;
	r = load_llvm();
	if (r)
		return whyf(why, n, r, "%s", host.why);
	L.LLVMInitializeX86TargetInfo();
	L.LLVMInitializeX86Target();
	L.LLVMInitializeX86TargetMC();
	L.LLVMInitializeX86AsmPrinter();
	L.LLVMInitializeX86AsmParser();
	triple = L.LLVMGetDefaultTargetTriple();
	host.cpu = L.LLVMGetHostCPUName();
	host.features = L.LLVMGetHostCPUFeatures();
	if (L.LLVMGetTargetFromTriple(triple, &target, &msg)) {
		r = whyf(host.why, sizeof(host.why), -ENOENT, "no target %s: %s", triple, msg);
		goto out;
	}
	host.tm = L.LLVMCreateTargetMachine(target, triple, host.cpu, host.features,
					    LLVMCodeGenLevelDefault, LLVMRelocPIC,
					    LLVMCodeModelDefault);
	host.ready = !r;
out:
	L.LLVMDisposeMessage(triple);
	return r ? whyf(why, n, r, "%s", host.why) : 0;
}

/* ---- building ------------------------------------------------------------ */

struct gen {
	const struct jit_cfg *cfg;
	struct jit_shape shape;
	LLVMContextRef c;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMTypeRef i1, i8, i32, i64, ptr;
	LLVMTypeRef sem_type;
	LLVMValueRef fn, x, w, base; /* the caller's */
	LLVMValueRef xl, wl;         /* the local copies */
	LLVMValueRef left;           /* local: what is left of the budget */
	LLVMValueRef zero64;
	LLVMBasicBlockRef exit, leave;
	LLVMBasicBlockRef *head;
	size_t wave_bytes;
	unsigned half; /* what the next instructions are built for */
	bool full;
	const char *missing; /* opcode without a sem function */
};

static LLVMValueRef c64(struct gen *g, uint64_t v)
{
	return L.LLVMConstInt(g->i64, v, 0);
}

/* Pointer to byte off of base. */
static LLVMValueRef at(struct gen *g, LLVMValueRef p, size_t off)
{
	LLVMValueRef i = c64(g, off);

	return L.LLVMBuildGEP2(g->b, g->i8, p, &i, 1, "");
}

#define WOFF(f) offsetof(struct isa_wave, f)
#define XOFF(f) offsetof(struct isa_exec, f)

static void set(struct gen *g, LLVMValueRef p, size_t off, LLVMValueRef v)
{
	L.LLVMBuildStore(g->b, v, at(g, p, off));
}

static LLVMValueRef get(struct gen *g, LLVMTypeRef t, LLVMValueRef p, size_t off)
{
	return L.LLVMBuildLoad2(g->b, t, at(g, p, off), "");
}

static void copy_wave(struct gen *g, LLVMValueRef to, LLVMValueRef from)
{
	L.LLVMBuildMemCpy(g->b, to, 128, from, 128, c64(g, g->wave_bytes));
}

static void set_pc(struct gen *g, uint64_t off)
{
	set(g, g->wl, WOFF(pc), L.LLVMBuildAdd(g->b, g->base, c64(g, off), ""));
}

static LLVMValueRef insn_const(struct gen *g, const struct isa_insn *in)
{
	struct isa_insn copy = *in;
	LLVMValueRef v, s;

	/* Function pointers of this process must not get into cached code. */
	copy.sem = NULL;
	copy.y_sem = NULL;
	s = L.LLVMConstStringInContext2(g->c, (const char *)&copy, sizeof(copy), 1);
	v = L.LLVMAddGlobal(g->m, L.LLVMArrayType2(g->i8, sizeof(copy)), "in");
	L.LLVMSetInitializer(v, s);
	L.LLVMSetGlobalConstant(v, 1);
	L.LLVMSetLinkage(v, LLVMInternalLinkage);
	L.LLVMSetAlignment(v, 16);
	return v;
}

static LLVMValueRef sem_of(struct gen *g, unsigned op)
{
	char name[80] = "sem_";
	const char *n = isa_op_name(op);
	size_t i;
	LLVMValueRef f;

	for (i = 0; i < sizeof(name) - 5 && n[i]; i++)
		name[4 + i] = n[i] >= 'a' && n[i] <= 'z' ? n[i] - 32 : n[i];
	name[4 + i] = 0;
	f = L.LLVMGetNamedFunction(g->m, name);
	if (!f || L.LLVMIsDeclaration(f)) {
		g->missing = n;
		return NULL;
	}
	return f;
}

static bool is_vector(unsigned fmt)
{
	return fmt >= ISA_VOP1 && fmt != ISA_EXP;
}

static LLVMBasicBlockRef block(struct gen *g, const char *name)
{
	return L.LLVMAppendBasicBlockInContext(g->c, g->fn, name);
}

/* Pointer to the local copy of VGPR code, of the half being built. */
static LLVMValueRef vgpr(struct gen *g, unsigned code)
{
	unsigned r = code - OPR_VGPR0, n = g->shape.nvgpr;

	return at(g, g->wl, WOFF(v) + sizeof(v32u) * (g->half * n + (r < n ? r : 0)));
}

static void attr(struct gen *g, LLVMValueRef f, int index, const char *name)
{
	unsigned k = L.LLVMGetEnumAttributeKindForName(name, strlen(name));

	L.LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)index,
				  L.LLVMCreateEnumAttribute(g->c, k, 0));
}

static void attr_str(struct gen *g, LLVMValueRef f, const char *k, const char *v)
{
	L.LLVMAddAttributeAtIndex(
		f, LLVMAttributeFunctionIndex,
		L.LLVMCreateStringAttribute(g->c, k, (unsigned)strlen(k), v, (unsigned)strlen(v)));
}

static void target_attrs(struct gen *g, LLVMValueRef f)
{
	attr_str(g, f, "target-cpu", host.cpu);
	attr_str(g, f, "target-features", host.features);
	attr_str(g, f, "min-legal-vector-width", "0");
	attr_str(g, f, "prefer-vector-width", "512");
}

/* A function of one instruction, void (x, w): the sem function with everything constant that is.
 * It is simplified on its own before it is inlined, so that what the encoding rules out never
 * reaches the kernel's function. */
static LLVMValueRef insn_function(struct gen *g, const struct isa_insn *in)
{
	LLVMBasicBlockRef back = L.LLVMGetInsertBlock(g->b);
	LLVMValueRef sem = sem_of(g, in->op), f, x, w, args[2];

	if (!sem)
		return NULL;
	f = L.LLVMAddFunction(g->m, "insn", g->sem_type);
	L.LLVMSetLinkage(f, LLVMInternalLinkage);
	attr(g, f, 1, "noalias");
	attr(g, f, 2, "noalias");
	target_attrs(g, f);
	x = L.LLVMGetParam(f, 0);
	w = L.LLVMGetParam(f, 1);
	L.LLVMPositionBuilderAtEnd(g->b, L.LLVMAppendBasicBlockInContext(g->c, f, ""));
	set(g, x, XOFF(w), w);
	set(g, x, XOFF(half), L.LLVMConstInt(g->i32, g->half, 0));
	set(g, x, XOFF(nvgpr), L.LLVMConstInt(g->i32, g->shape.nvgpr, 0));
	set(g, x, XOFF(mode), L.LLVMConstInt(g->i32, g->shape.mode, 0));
	set(g, w, WOFF(wave64), L.LLVMConstInt(g->i8, g->shape.wave64, 0));
	/* The first instruction that writes EXEC ends its block, so this holds up to there. */
	if (g->full)
		set(g, w, WOFF(exec), c64(g, g->shape.wave64 ? ~0ull : 0xffffffffull));
	args[0] = x;
	args[1] = insn_const(g, in);
	L.LLVMBuildCall2(g->b, g->sem_type, sem, args, 2, "");
	L.LLVMBuildRetVoid(g->b);
	L.LLVMPositionBuilderAtEnd(g->b, back);
	return f;
}

static void call_once(struct gen *g, const struct isa_insn *in)
{
	LLVMValueRef f = insn_function(g, in), args[2] = {g->xl, g->wl};

	if (f)
		L.LLVMBuildCall2(g->b, g->sem_type, f, args, 2, "");
}

static bool reads(const uint16_t *src, unsigned n, unsigned reg)
{
	for (unsigned i = 0; i < n; i++)
		if (src[i] == reg)
			return true;
	return false;
}

/* VOPD: two instructions, neither of which sees the other's result. */
static void call_dual(struct gen *g, const struct isa_insn *in)
{
	LLVMTypeRef v32 = L.LLVMVectorType(g->i32, 32);
	struct isa_insn y = *in;
	LLVMValueRef before, after;

	y.op = in->y_op;
	y.dst = in->y_dst;
	memcpy(y.src, in->y_src, sizeof(in->y_src));
	if (!reads(y.src, 3, in->dst)) {
		call_once(g, in);
		call_once(g, &y);
	} else if (!reads(in->src, 3, y.dst)) {
		call_once(g, &y);
		call_once(g, in);
	} else {
		before = L.LLVMBuildLoad2(g->b, v32, vgpr(g, in->dst), "");
		call_once(g, in);
		after = L.LLVMBuildLoad2(g->b, v32, vgpr(g, in->dst), "");
		L.LLVMBuildStore(g->b, before, vgpr(g, in->dst));
		call_once(g, &y);
		L.LLVMBuildStore(g->b, after, vgpr(g, in->dst));
	}
}

/* Both halves of wave64. What the first writes of a lane mask (VOPC, carries) is put aside while
 * the second runs: both read the scalars from before (run_wave64() of the interpreter). */
static void call_halves(struct gen *g, const struct isa_insn *in)
{
	int64_t mask = isa_mask_dst(in);
	LLVMValueRef before = NULL, after;
	size_t off = mask == OPR_EXEC_LO ? WOFF(exec) : WOFF(s) + 4 * (size_t)mask;

	if (mask >= 0)
		before = get(g, g->i32, g->wl, off);
	for (g->half = 0; g->half < 2; g->half++) {
		call_once(g, in);
		if (mask < 0)
			continue;
		if (!g->half) {
			after = get(g, g->i32, g->wl, off);
			set(g, g->wl, off, before);
		} else {
			set(g, g->wl, off, after);
		}
	}
	g->half = 0;
}

static void call_sem(struct gen *g, const struct isa_insn *in)
{
	if (g->shape.wave64 && in->y_op)
		return; /* VOPD is wave32's alone and skipped */
	if (g->shape.wave64 && is_vector(in->fmt) && !(isa_flags[in->op] & OPF_ONCE))
		call_halves(g, in);
	else if (in->y_op)
		call_dual(g, in);
	else
		call_once(g, in);
}

/* Ends the function with n instructions less than were charged. */
static void give_back(struct gen *g, uint32_t n)
{
	L.LLVMBuildStore(
		g->b,
		L.LLVMBuildAdd(g->b, L.LLVMBuildLoad2(g->b, g->i64, g->left, ""), c64(g, n), ""),
		g->left);
	L.LLVMBuildBr(g->b, g->exit);
}

/* Leaves after an instruction that may have stopped the wave, `undone` before its block's end. The
 * block was charged whole: what did not run is given back, also the instruction itself if it is
 * what the wave stopped at. */
static void stop_after(struct gen *g, uint32_t undone)
{
	LLVMBasicBlockRef halted = block(g, "halted"), refused = block(g, "refused"),
			  ran = block(g, "ran");

	L.LLVMBuildCondBr(g->b,
			  L.LLVMBuildICmp(g->b, LLVMIntEQ, get(g, g->i8, g->wl, WOFF(state)),
					  L.LLVMConstInt(g->i8, WAVE_HALTED, 0), ""),
			  halted, ran);
	L.LLVMPositionBuilderAtEnd(g->b, halted);
	L.LLVMBuildCondBr(g->b,
			  L.LLVMBuildICmp(g->b, LLVMIntNE, get(g, g->i8, g->wl, WOFF(stop)),
					  L.LLVMConstInt(g->i8, STOP_NONE, 0), ""),
			  refused, ran);
	L.LLVMPositionBuilderAtEnd(g->b, refused);
	give_back(g, undone + 1);
	L.LLVMPositionBuilderAtEnd(g->b, ran);
	give_back(g, undone);
}

/* One instruction; afterwards, if it stopped the wave, control goes to the exit. False: control
 * does not go on behind it (or it has no meaning, g->missing). */
static bool emit_insn(struct gen *g, const struct jit_insn *j, uint32_t undone)
{
	LLVMValueRef sem, stopped;
	LLVMBasicBlockRef on, off;

	sem = sem_of(g, j->in.op);
	if (!sem)
		return false;
	set_pc(g, j->off + j->in.len);
	if (jit_leaves_the_wave(j->in.op)) {
		LLVMValueRef args[2] = {g->x, insn_const(g, &j->in)};

		copy_wave(g, g->w, g->wl);
		/* It is w already. But w is noalias: what is called may reach the wave by x->w only
		 * if that is w let out of hand here; and then copies go to and from memory. */
		set(g, g->x, XOFF(w), g->w);
		set(g, g->x, XOFF(nvgpr), L.LLVMConstInt(g->i32, g->shape.nvgpr, 0));
		set(g, g->x, XOFF(mode), L.LLVMConstInt(g->i32, g->shape.mode, 0));
		L.LLVMBuildCall2(g->b, g->sem_type, sem, args, 2, "");
		copy_wave(g, g->wl, g->w);
		/* The rest of what is specialised on may have changed: start anew behind it. */
		stop_after(g, 0);
		return false;
	} else {
		call_sem(g, &j->in);
		if (g->missing)
			return false;
	}
	stopped = L.LLVMBuildICmp(g->b, LLVMIntNE, get(g, g->i8, g->wl, WOFF(state)),
				  L.LLVMConstInt(g->i8, WAVE_RUN, 0), "");
	on = block(g, "on");
	off = block(g, "stop");
	L.LLVMBuildCondBr(g->b, stopped, off, on);
	L.LLVMPositionBuilderAtEnd(g->b, off);
	stop_after(g, undone);
	L.LLVMPositionBuilderAtEnd(g->b, on);
	return true;
}

static void emit_body(struct gen *g, const struct jit_block *bl, bool full)
{
	LLVMValueRef pc, taken;
	const struct jit_insn *last = &g->cfg->insns[bl->first + bl->n - 1];

	g->full = full;
	set(g, g->wl, WOFF(state), L.LLVMConstInt(g->i8, WAVE_RUN, 0));
	for (uint32_t i = 0; i < bl->n; i++)
		if (!emit_insn(g, &g->cfg->insns[bl->first + i], bl->n - 1 - i))
			return;
	if (bl->next[1] >= 0) {
		LLVMBasicBlockRef other = block(g, "other");
		const struct jit_block *t = &g->cfg->blocks[bl->next[1]];

		pc = get(g, g->i64, g->wl, WOFF(pc));
		taken = L.LLVMBuildICmp(g->b, LLVMIntEQ, pc,
					L.LLVMBuildAdd(g->b, g->base, c64(g, t->off), ""), "");
		L.LLVMBuildCondBr(g->b, taken, g->head[bl->next[1]], other);
		L.LLVMPositionBuilderAtEnd(g->b, other);
	} else if (bl->next[0] >= 0 && isa_flags[last->in.op] & OPF_BRANCH) {
		/* A branch out of what is compiled, if it is taken. */
		LLVMBasicBlockRef on = block(g, "on");

		pc = get(g, g->i64, g->wl, WOFF(pc));
		taken = L.LLVMBuildICmp(
			g->b, LLVMIntNE, pc,
			L.LLVMBuildAdd(g->b, g->base, c64(g, last->off + last->in.len), ""), "");
		L.LLVMBuildCondBr(g->b, taken, g->exit, on);
		L.LLVMPositionBuilderAtEnd(g->b, on);
	}
	if (bl->next[0] >= 0 && g->cfg->blocks[bl->next[0]].off == last->off + last->in.len)
		L.LLVMBuildBr(g->b, g->head[bl->next[0]]);
	else
		L.LLVMBuildBr(g->b, g->exit);
}

static void emit_block(struct gen *g, uint32_t i)
{
	const struct jit_block *bl = &g->cfg->blocks[i];
	LLVMBasicBlockRef go, full = block(g, "full"), part = NULL, out = NULL;
	bool both = bl->some || !g->shape.whole;
	LLVMValueRef left, exec;

	L.LLVMPositionBuilderAtEnd(g->b, g->head[i]);
	left = L.LLVMBuildLoad2(g->b, g->i64, g->left, "");
	if (both)
		part = block(g, "part");
	if (bl->entry || !both) {
		out = block(g, "out");
		L.LLVMPositionBuilderAtEnd(g->b, out);
		set_pc(g, bl->off);
		L.LLVMBuildBr(g->b, g->exit);
		L.LLVMPositionBuilderAtEnd(g->b, g->head[i]);
	}
	if (bl->entry) {
		go = block(g, "go");
		L.LLVMBuildCondBr(g->b, L.LLVMBuildICmp(g->b, LLVMIntSLE, left, g->zero64, ""), out,
				  go);
		L.LLVMPositionBuilderAtEnd(g->b, go);
	}
	exec = get(g, g->i64, g->wl, WOFF(exec));
	L.LLVMBuildCondBr(g->b,
			  L.LLVMBuildICmp(g->b, LLVMIntEQ, exec,
					  c64(g, g->shape.wave64 ? ~0ull : 0xffffffffull), ""),
			  full, both ? part : out);
	for (unsigned k = 0; k < (both ? 2u : 1u) && !g->missing; k++) {
		L.LLVMPositionBuilderAtEnd(g->b, k ? part : full);
		L.LLVMBuildStore(g->b, L.LLVMBuildSub(g->b, left, c64(g, bl->n), ""), g->left);
		emit_body(g, bl, !k);
	}
}

/* Every sem function and helper: private to the module and to be inlined. */
static void claim_sems(struct gen *g)
{
	unsigned noinline_kind = L.LLVMGetEnumAttributeKindForName("noinline", 8);
	unsigned optnone_kind = L.LLVMGetEnumAttributeKindForName("optnone", 7);

	for (LLVMValueRef f = L.LLVMGetFirstFunction(g->m); f; f = L.LLVMGetNextFunction(f)) {
		if (L.LLVMIsDeclaration(f))
			continue;
		L.LLVMSetLinkage(f, LLVMInternalLinkage);
		L.LLVMSetVisibility(f, LLVMDefaultVisibility);
		L.LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, noinline_kind);
		L.LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, optnone_kind);
		attr(g, f, LLVMAttributeFunctionIndex, "alwaysinline");
		L.LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, "tune-cpu", 8);
		target_attrs(g, f);
	}
	for (LLVMValueRef v = L.LLVMGetFirstGlobal(g->m); v; v = L.LLVMGetNextGlobal(v))
		if (!L.LLVMIsDeclaration(v)) {
			L.LLVMSetLinkage(v, LLVMInternalLinkage);
			L.LLVMSetVisibility(v, LLVMDefaultVisibility);
		}
}

/* The functions of single instructions, simplified by now, are to be inlined into the kernel. */
static void claim_insns(struct gen *g)
{
	for (LLVMValueRef f = L.LLVMGetFirstFunction(g->m); f; f = L.LLVMGetNextFunction(f))
		if (f != g->fn && !L.LLVMIsDeclaration(f))
			attr(g, f, LLVMAttributeFunctionIndex, "alwaysinline");
}

static void emit_function(struct gen *g, const char *name)
{
	LLVMTypeRef params[4] = {g->ptr, g->ptr, g->i64, g->i64};
	LLVMBasicBlockRef entry, mode;
	LLVMValueRef sw, done, n;
	uint32_t i;

	g->fn = L.LLVMAddFunction(g->m, name, L.LLVMFunctionType(g->i64, params, 4, 0));
	attr(g, g->fn, 1, "noalias");
	/* The wave has another name, x->w: where it may be used, it is made from this one first
	 * (emit_insn()). */
	attr(g, g->fn, 2, "noalias");
	target_attrs(g, g->fn);
	g->x = L.LLVMGetParam(g->fn, 0);
	g->w = L.LLVMGetParam(g->fn, 1);
	g->base = L.LLVMGetParam(g->fn, 2);
	entry = block(g, "entry");
	g->exit = block(g, "exit");
	g->leave = block(g, "leave");
	for (i = 0; i < g->cfg->n_blocks; i++)
		g->head[i] = block(g, "head");

	L.LLVMPositionBuilderAtEnd(g->b, entry);
	g->xl = L.LLVMBuildAlloca(g->b, L.LLVMArrayType2(g->i8, sizeof(struct isa_exec)), "x");
	g->wl = L.LLVMBuildAlloca(g->b, L.LLVMArrayType2(g->i8, g->wave_bytes), "w");
	L.LLVMSetAlignment(g->xl, 64);
	L.LLVMSetAlignment(g->wl, 128);
	g->left = L.LLVMBuildAlloca(g->b, g->i64, "left");
	L.LLVMBuildMemCpy(g->b, g->xl, 8, g->x, 8, c64(g, sizeof(struct isa_exec)));
	copy_wave(g, g->wl, g->w);
	set(g, g->xl, XOFF(approximated), g->zero64);
	L.LLVMBuildStore(g->b, L.LLVMGetParam(g->fn, 3), g->left);
	/* MODE is part of the shape: rounding and denormals are decided here, not per instruction.
	 */
	mode = block(g, "mode");
	L.LLVMBuildCondBr(g->b,
			  L.LLVMBuildICmp(g->b, LLVMIntEQ, get(g, g->i32, g->wl, WOFF(mode)),
					  L.LLVMConstInt(g->i32, g->shape.mode, 0), ""),
			  mode, g->leave);
	L.LLVMPositionBuilderAtEnd(g->b, mode);
	sw = L.LLVMBuildSwitch(g->b,
			       L.LLVMBuildSub(g->b, get(g, g->i64, g->wl, WOFF(pc)), g->base, ""),
			       g->leave, g->cfg->n_blocks);
	for (i = 0; i < g->cfg->n_blocks; i++)
		if (g->cfg->blocks[i].entry)
			L.LLVMAddCase(sw, c64(g, g->cfg->blocks[i].off), g->head[i]);

	for (i = 0; i < g->cfg->n_blocks && !g->missing; i++)
		emit_block(g, i);

	L.LLVMPositionBuilderAtEnd(g->b, g->exit);
	done = L.LLVMBuildSub(g->b, L.LLVMGetParam(g->fn, 3),
			      L.LLVMBuildLoad2(g->b, g->i64, g->left, ""), "");
	n = L.LLVMBuildAdd(g->b, get(g, g->i64, g->wl, WOFF(insns)), done, "");
	set(g, g->wl, WOFF(insns), n);
	copy_wave(g, g->w, g->wl);
	set(g, g->x, XOFF(approximated),
	    L.LLVMBuildAdd(g->b, get(g, g->i64, g->x, XOFF(approximated)),
			   get(g, g->i64, g->xl, XOFF(approximated)), ""));
	L.LLVMBuildRet(g->b, done);
	L.LLVMPositionBuilderAtEnd(g->b, g->leave);
	L.LLVMBuildRet(g->b, g->zero64);
}

/* True if the wave stayed in memory: something let its address escape. */
static bool wave_escaped(struct gen *g)
{
	LLVMValueRef i = L.LLVMGetFirstInstruction(L.LLVMGetFirstBasicBlock(g->fn));

	for (; i; i = L.LLVMGetNextInstruction(i))
		if (L.LLVMGetInstructionOpcode(i) == LLVMAlloca &&
		    L.LLVMABISizeOfType(L.LLVMGetModuleDataLayout(g->m),
					L.LLVMGetAllocatedType(i)) >= g->wave_bytes)
			return true;
	return false;
}

static int emit_object(struct gen *g, void **object, size_t *bytes, char *why, size_t whylen)
{
	LLVMMemoryBufferRef buf;
	LLVMPassBuilderOptionsRef opt = L.LLVMCreatePassBuilderOptions();
	/* Each instruction by itself, until register numbers, modifiers and MODE have folded away;
	 * then the kernel as a whole, whose local wave can be taken apart now. */
	static const char each[] =
		"globaldce,always-inline,globaldce,"
		"function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,sroa,"
		"early-cse<memssa>,simplifycfg,loop-unroll-full,sroa,"
		"instcombine<no-verify-fixpoint>,simplifycfg,adce)";
	static const char whole[] =
		"always-inline,globaldce,"
		"function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,sroa)";
	static const char rest[] = "default<O2>";
	const char *dump = getenv("VGPU_JIT_DUMP");
	char *msg = NULL;
	int r;

	r = take_error(L.LLVMRunPasses(g->m, each, host.tm, opt), "passes", why, whylen);
	if (!r) {
		claim_insns(g);
		r = take_error(L.LLVMRunPasses(g->m, whole, host.tm, opt), "passes", why, whylen);
	}
	if (!r && dump && wave_escaped(g))
		L.LLVMPrintModuleToFile(g->m, dump, &msg);
	if (!r)
		r = take_error(L.LLVMRunPasses(g->m, rest, host.tm, opt), "passes", why, whylen);
	L.LLVMDisposePassBuilderOptions(opt);
	if (r)
		return r;
	if (wave_escaped(g))
		return whyf(why, whylen, -ENOTSUP, "registers would stay in memory");
	if (L.LLVMTargetMachineEmitToMemoryBuffer(host.tm, g->m, LLVMObjectFile, &msg, &buf)) {
		whyf(why, whylen, 0, "emit: %s", msg);
		L.LLVMDisposeMessage(msg);
		return -EIO;
	}
	*bytes = L.LLVMGetBufferSize(buf);
	*object = malloc(*bytes);
	if (*object)
		memcpy(*object, L.LLVMGetBufferStart(buf), *bytes);
	L.LLVMDisposeMemoryBuffer(buf);
	return *object ? 0 : whyf(why, whylen, -ENOMEM, "no memory for %zu bytes", *bytes);
}

int jit_llvm_prepare(char *why, size_t whylen)
{
	int r;

	pthread_mutex_lock(&host.lock);
	r = host_init(why, whylen);
	pthread_mutex_unlock(&host.lock);
	return r;
}

int jit_llvm_compile(const struct jit_cfg *cfg, const struct jit_shape *shape, void **object,
		     size_t *object_bytes, char *why, size_t whylen)
{
	struct gen g = {.cfg = cfg, .shape = *shape};
	/* Two symbols, one array: as numbers they may be subtracted. */
	size_t bytes = (uintptr_t)jit_sem_bitcode_end - (uintptr_t)jit_sem_bitcode;
	LLVMMemoryBufferRef buf;
	int r;

	pthread_mutex_lock(&host.lock);
	r = host_init(why, whylen);
	if (r)
		goto out_lock;
	g.wave_bytes = isa_wave_bytes(shape->nvgpr, shape->wave64);
	g.head = calloc(cfg->n_blocks, sizeof(*g.head));
	g.c = L.LLVMContextCreate();
	buf = L.LLVMCreateMemoryBufferWithMemoryRange((const char *)jit_sem_bitcode, bytes, "sem",
						      0);
	if (!g.head || L.LLVMParseBitcodeInContext2(g.c, buf, &g.m)) {
		r = whyf(why, whylen, -EIO, "cannot read the opcode functions");
		goto out_ctx;
	}
	g.b = L.LLVMCreateBuilderInContext(g.c);
	g.i1 = L.LLVMInt1TypeInContext(g.c);
	g.i8 = L.LLVMInt8TypeInContext(g.c);
	g.i32 = L.LLVMInt32TypeInContext(g.c);
	g.i64 = L.LLVMInt64TypeInContext(g.c);
	g.ptr = L.LLVMPointerTypeInContext(g.c, 0);
	g.zero64 = c64(&g, 0);
	g.sem_type = L.LLVMFunctionType(L.LLVMVoidTypeInContext(g.c), (LLVMTypeRef[]){g.ptr, g.ptr},
					2, 0);
	claim_sems(&g);
	emit_function(&g, JIT_ENTRY);
	if (g.missing)
		r = whyf(why, whylen, -ENOTSUP, "%s has no meaning", g.missing);
	else
		r = emit_object(&g, object, object_bytes, why, whylen);
	L.LLVMDisposeBuilder(g.b);
	L.LLVMDisposeModule(g.m);
out_ctx:
	L.LLVMDisposeMemoryBuffer(buf);
	L.LLVMContextDispose(g.c);
	free(g.head);
out_lock:
	pthread_mutex_unlock(&host.lock);
	return r;
}
