/* Waves on the (virtual) device: they store, trap, fault, want scratch, and the driver says what
 * became of them. Each test is a process of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/virt_device.h"

/* s_load_b64 s[2:3], s[0:1], 0; s_waitcnt; v0:1 = s2:3; v2 = 0x1234 */
#define LOAD_ADDRESS 0xf4040080, 0xf8000000, 0xbf89fc07, 0x7e000202, 0x7e020203, 0x7e0402ff, 0x1234
/* global_store_b32 v[0:1], v2; s_waitcnt_vscnt */
#define STORE 0xdc6a0000, 0x007c0200, 0xbc7c0000
/* global_load_b32 v2, v[0:1]; s_waitcnt */
#define LOAD     0xdc520000, 0x027c0000, 0xbf8903f7
#define S_TRAP_2 0xbf900002
#define S_TRAP_3 0xbf900003
#define S_ENDPGM 0xbfb00000

/* A client may have a clone() of its own, as one under ThreadSanitizer has: not for the device's use. */
int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	(void)fn;
	(void)stack;
	(void)flags;
	(void)arg;
	abort();
}

struct program {
	struct bo *bo;
	struct kernarg_pool args;
	struct signal *done;
};

/* A kernel descriptor (LLVM AMDGPUUsage) at 0, code at 256: kernarg pointer in s[0:1], wave32. */
static void program_make(struct program *p, const uint32_t *code, size_t bytes, bool scratch)
{
	struct bo_desc d = {.owner = "code",
			    .size = 4096,
			    .executable = true,
			    .coherence = BO_UNCACHED,
			    .host = true};
	unsigned char *k;
	uint32_t *dw;

	cr_assert_eq(bo_create(dev.memory, &d, &p->bo), 0, "%s", kfd_reason());
	cr_assert_eq(kernarg_pool_create(dev.memory, 4096, &p->args), 0);
	cr_assert_eq(signal_create(dev.queue, 1, &p->done), 0);
	k = bo_host(p->bo);
	dw = (uint32_t *)k;
	dw[2] = 8;                                    /* kernarg size */
	*(int64_t *)(k + 16) = 256;                   /* entry */
	dw[12] = 0x60af0000;                          /* float mode, IEEE, WGP, mem ordered */
	dw[13] = 2 << 1 | 1 << 7 | (scratch ? 1 : 0); /* two user SGPRs, workgroup id x */
	*(uint16_t *)(k + 56) = 1 << 3 | 1 << 10;     /* kernarg pointer, wave32 */
	memcpy(k + 256, code, bytes);
	for (size_t i = 0; i < 64; i++) /* the prefetcher reads on */
		memcpy(k + 256 + bytes + i * 4, &(uint32_t){0xbf9f0000}, 4);
}

static int program_run(struct program *p, uint64_t arg, uint32_t private_bytes)
{
	uint64_t *ka = kernarg_alloc(&p->args, 8, 64);
	struct queue_batch b;

	*ka = arg;
	signal_set(p->done, 1);
	cr_assert_eq(queue_begin(dev.queue, 1, &b), 0);
	queue_dispatch(&b, &(struct aql_dispatch){.kernel_object = bo_va(p->bo),
						  .kernarg = (uintptr_t)ka,
						  .grid = {32, 1, 1},
						  .group = {32, 1, 1},
						  .private_bytes = private_bytes,
						  .completion = p->done,
						  .barrier = true,
						  .acquire_system = true,
						  .release_system = true});
	queue_commit(&b);
	return signal_wait(dev.queue, p->done, 1, PATIENCE, &fault);
}

static void program_drop(struct program *p)
{
	signal_destroy(p->done);
	kernarg_pool_destroy(&p->args);
	cr_assert_eq(bo_destroy(p->bo), 0, "%s", kfd_reason());
}

Test(wave, store)
{
	static const uint32_t code[] = {LOAD_ADDRESS, STORE, S_ENDPGM};
	struct bo_desc d = {.owner = "out", .size = 4096, .coherence = BO_UNCACHED, .host = true};
	struct program p;
	struct bo *out;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(bo_create(dev.memory, &d, &out), 0);
	for (int i = 0; i < 20; i++) {
		uint32_t *w = (uint32_t *)bo_host(out) + i;

		cr_assert_eq(program_run(&p, (uintptr_t)w, 0), 0, "%s", fault.text);
		cr_assert_eq(*w, 0x1234);
	}
	bo_destroy(out);
	program_drop(&p);
	close_device();
}

/* Whoever waits for his children waits for his own: the compiler that is started beside is none. */
Test(wave, the_compiler_is_nobodys_child)
{
	static const uint32_t code[] = {LOAD_ADDRESS, STORE, S_ENDPGM};
	struct bo_desc d = {.owner = "out", .size = 4096, .coherence = BO_UNCACHED, .host = true};
	struct program p;
	struct bo *out;

	setenv("VGPU_SET", "jit=2", 1);
	setenv("VGPU_JIT_CACHE", "", 1);
	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(bo_create(dev.memory, &d, &out), 0);
	cr_assert_eq(program_run(&p, (uintptr_t)bo_host(out), 0), 0, "%s", fault.text);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child that nobody made");
	cr_assert_eq(errno, ECHILD);
	bo_destroy(out);
	program_drop(&p);
	close_device();
}

Test(wave, abort_is_reported)
{
	static const uint32_t code[] = {S_TRAP_2, S_ENDPGM};
	struct program p;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(program_run(&p, 0, 0), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_WAVE);
	cr_expect_eq(fault.reason, KFD_EC_MASK(EC_QUEUE_WAVE_ABORT));
	cr_expect(strstr(fault.text, "wave aborted"), "%s", fault.text);
	/* It stays said. */
	cr_expect_eq(signal_wait(dev.queue, p.done, 1, PATIENCE, &fault), -EFAULT);
	program_drop(&p);
	close_device();
}

/* A later dispatch may well complete: what it computed from is not trusted. */
Test(wave, completion_after_an_error_is_no_success)
{
	static const uint32_t bad[] = {S_TRAP_2, S_ENDPGM}, good[] = {S_ENDPGM};
	struct aql_dispatch d = {.grid = {32, 1, 1}, .group = {32, 1, 1}};
	struct queue_batch b;
	struct program p, q;

	open_device();
	program_make(&p, bad, sizeof(bad), false);
	program_make(&q, good, sizeof(good), false);
	cr_assert_eq(queue_begin(dev.queue, 1, &b), 0);
	d.kernel_object = bo_va(p.bo);
	queue_dispatch(&b, &d);
	queue_commit(&b);
	for (int i = 0; !__atomic_load_n(&dev.queue->page->error, __ATOMIC_ACQUIRE); i++) {
		cr_assert(i < 100000, "no error word");
		usleep(1000);
	}
	cr_assert_eq(queue_begin(dev.queue, 1, &b), 0);
	d.kernel_object = bo_va(q.bo);
	d.completion = q.done;
	queue_dispatch(&b, &d);
	queue_commit(&b);
	for (int i = 0; signal_load(q.done) > 0; i++) {
		cr_assert(i < 100000, "no completion");
		usleep(1000);
	}
	cr_expect_eq(signal_wait(dev.queue, q.done, 1, PATIENCE, &fault), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_WAVE);
	cr_expect(strstr(fault.text, "wave aborted"), "%s", fault.text);
	program_drop(&q);
	program_drop(&p);
	close_device();
}

Test(wave, debugtrap_is_stepped_over)
{
	static const uint32_t code[] = {S_TRAP_3, S_ENDPGM};
	struct program p;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_expect_eq(program_run(&p, 0, 0), 0, "%s", fault.text);
	program_drop(&p);
	close_device();
}

Test(wave, fault_names_the_dead_buffer)
{
	static const uint32_t code[] = {LOAD_ADDRESS, STORE, S_ENDPGM};
	struct bo_desc d = {.owner = "kv", .size = 65536};
	struct program p;
	struct bo *kv;
	uint64_t va;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(bo_create(dev.memory, &d, &kv), 0);
	va = bo_va(kv);
	bo_destroy(kv);
	cr_assert_eq(program_run(&p, va + 0x2010, 0), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_MEMORY, "%s", fault.text);
	cr_expect_eq(fault.va, va + 0x2000);
	cr_expect(fault.not_present);
	cr_expect_not(fault.read_only);
	cr_expect(strstr(fault.text, "offset 0x2000 of \"kv\"") && strstr(fault.text, "freed"),
		  "%s", fault.text);
	program_drop(&p);
	close_device();
}

Test(wave, fault_past_the_end)
{
	static const uint32_t code[] = {LOAD_ADDRESS, LOAD, S_ENDPGM};
	struct bo_desc d = {.owner = "logits", .size = 4096, .align = 1 << 20};
	struct program p;
	struct bo *b;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(bo_create(dev.memory, &d, &b), 0);
	cr_assert_eq(program_run(&p, bo_va(b) + 8192 + 4, 0), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_MEMORY, "%s", fault.text);
	cr_expect(strstr(fault.text, "0x1000 bytes past the end of \"logits\""), "%s", fault.text);
	bo_destroy(b);
	program_drop(&p);
	close_device();
}

Test(wave, store_to_readonly)
{
	static const uint32_t code[] = {LOAD_ADDRESS, STORE, S_ENDPGM};
	struct bo_desc d = {.owner = "constants", .size = 4096, .readonly = true};
	struct program p;
	struct bo *b;

	open_device();
	program_make(&p, code, sizeof(code), false);
	cr_assert_eq(bo_create(dev.memory, &d, &b), 0);
	cr_assert_eq(program_run(&p, bo_va(b), 0), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_MEMORY, "%s", fault.text);
	cr_expect(fault.read_only);
	cr_expect(strstr(fault.text, "\"constants\"") && strstr(fault.text, "write to"), "%s",
		  fault.text);
	bo_destroy(b);
	program_drop(&p);
	close_device();
}

Test(wave, scratch_on_demand)
{
	static const uint32_t code[] = {S_ENDPGM};
	struct program p;

	open_device();
	program_make(&p, code, sizeof(code), true);
	cr_assert_eq(program_run(&p, 0, 0), 0, "%s", fault.text);
	cr_expect_null(dev.queue->scratch_bo);
	cr_assert_eq(program_run(&p, 0, 260), 0, "%s", fault.text);
	cr_assert_not_null(dev.queue->scratch_bo);
	if (queue_plan_of(dev.queue)->cus == 40) { /* published figures */
		cr_expect_eq(dev.queue->page->queue.compute_tmpring_size, 0x00021280);
		cr_expect_eq(bo_size(dev.queue->scratch_bo), 0xa50000);
	}
	cr_expect_eq(dev.queue->page->queue.scratch_wave64_lane_byte_size, 0x84);
	cr_assert_eq(program_run(&p, 0, 1024), 0, "%s", fault.text);
	cr_expect_eq(dev.queue->page->queue.scratch_wave64_lane_byte_size, 512);
	/* What suffices is left alone. */
	cr_assert_eq(program_run(&p, 0, 16), 0, "%s", fault.text);
	cr_expect_eq(dev.queue->page->queue.scratch_wave64_lane_byte_size, 512);
	program_drop(&p);
	close_device();
}

Test(wave, bad_kernel_object)
{
	struct queue_batch b;
	struct signal *s;

	open_device();
	cr_assert_eq(signal_create(dev.queue, 1, &s), 0);
	cr_assert_eq(queue_begin(dev.queue, 1, &b), 0);
	queue_dispatch(&b, &(struct aql_dispatch){
				   .kernel_object = 0, .grid = {1}, .group = {1}, .completion = s});
	queue_commit(&b);
	cr_expect_eq(signal_wait(dev.queue, s, 1, PATIENCE, &fault), -EFAULT);
	cr_expect(fault.text[0], "a fault without a word");
	signal_destroy(s);
	close_device();
}

/* What is not known is neither taken for a request nor acknowledged. */
Test(wave, strange_inactive_value)
{
	struct signal *s;

	open_device();
	cr_assert_eq(signal_create(dev.queue, 1, &s), 0);
	__atomic_store_n(&dev.queue->page->inactive.value, 0x10, __ATOMIC_RELEASE);
	cr_expect_eq(signal_wait(dev.queue, s, 1, PATIENCE, &fault), -EFAULT);
	cr_expect_eq(fault.kind, QUEUE_FAULT_PACKET);
	cr_expect(strstr(fault.text, "reports 0x10, which is not known"), "%s", fault.text);
	cr_expect_eq(dev.queue->page->inactive.value, 0x10);
	signal_destroy(s);
	close_device();
}
