/* Text for people: LLVM's where it can be loaded, else the name and the raw words. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "isa/isa.h"

typedef void *create_fn(const char *, const char *, const char *, void *, int, void *, void *);
typedef size_t disasm_fn(void *, uint8_t *, uint64_t, uint64_t, char *, size_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static disasm_fn *llvm_disasm;
static void *context;
static bool tried;

static void *open_llvm(void)
{
	static const char *const names[] = {"libLLVM-19.so.1", "libLLVM.so.19.1",
					    "/usr/lib/llvm-19/lib/libLLVM.so.19.1"};
	void *so = NULL;

	for (unsigned i = 0; !vgpu_is_static && !so && i < sizeof(names) / sizeof(*names); i++)
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return so;
}

static void load(void)
{
	static const char *const init[] = {"LLVMInitializeAMDGPUTargetInfo",
					   "LLVMInitializeAMDGPUTargetMC",
					   "LLVMInitializeAMDGPUDisassembler"};
	create_fn *create;
	void *so = open_llvm();

	tried = true;
	if (!so)
		return;
	for (unsigned i = 0; i < 3; i++) {
		void (*f)(void) = (void (*)(void))dlsym(so, init[i]);

		if (!f)
			return;
		f();
	}
	create = (create_fn *)dlsym(so, "LLVMCreateDisasmCPUFeatures");
	llvm_disasm = (disasm_fn *)dlsym(so, "LLVMDisasmInstruction");
	if (create && llvm_disasm)
		context = create("amdgcn-amd-amdhsa", "gfx1151", "", NULL, 0, NULL, NULL);
}

void isa_disasm(const uint32_t *words, unsigned n, uint64_t pc, char *buf, unsigned len)
{
	struct isa_insn in;
	int got = isa_decode(words, n, &in), at;

	if (!len)
		return;
	pthread_mutex_lock(&lock);
	if (!tried)
		load();
	buf[0] = 0;
	if (context && n) {
		char text[256];

		if (llvm_disasm(context, (uint8_t *)(uintptr_t)words, 4ull * n, pc, text,
				sizeof(text)))
			snprintf(buf, len, "%s", text + strspn(text, " \t"));
	}
	pthread_mutex_unlock(&lock);
	if (buf[0])
		return;
	at = snprintf(buf, len, "%s", got > 0 ? isa_op_name(in.op) : "invalid");
	for (unsigned i = 0; i < (got > 0 ? (unsigned)got / 4 : n ? 1 : 0); i++)
		if (at >= 0 && (unsigned)at < len)
			at += snprintf(buf + at, len - at, " %08x", words[i]);
}
