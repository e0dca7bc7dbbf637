/* Memory under control, on the (virtual) device: placement, guards, quarantine, poison, sharing,
 * lifetimes, publication, limits, the shared ledger. Each test is a process of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/zones.h"
#include "memory/arena.h"
#include "memory/ledger_format.h"
#include "memory/rules.h"
#include "queues/device.h"
#include "queues/sdma.h"

static struct bw_device dev;
static struct bo_rules rules;

static void rule(const char *option, const char *value)
{
	char why[256];

	cr_assert_eq(bo_rules_add(&rules, option, value, why, sizeof(why)), 0, "%s", why);
}

static void open_device(bool queue)
{
	struct bw_device_opts o = {.rules = &rules, .no_queue = !queue};
	char why[512] = "";

	cr_assert_eq(bw_device_open(&o, &dev, why, sizeof(why)), 0, "%s", why);
}

static void close_device(void)
{
	struct bw_teardown left;

	cr_assert_eq(bw_device_close(&dev, &left), 0, "%s", kfd_reason());
	cr_expect(!left.bos && !left.bytes && !left.queues);
}

static struct bo *make(const struct bo_desc *d)
{
	struct bo *b = NULL;

	cr_assert_eq(bo_create(dev.memory, d, &b), 0, "%s", kfd_reason());
	return b;
}

/* Whether the CPU may touch a byte: the kernel says so without a signal. */
static bool touchable(uint64_t va)
{
	int fd = open("/dev/null", O_WRONLY), pipefd[2];
	bool ok;

	cr_assert_eq(pipe(pipefd), 0);
	ok = write(pipefd[1], (void *)(uintptr_t)va, 1) == 1;
	close(pipefd[0]);
	close(pipefd[1]);
	close(fd);
	return ok;
}

/* ---- placement ---- */

Test(place, end_flush_to_the_byte)
{
	struct bo_desc d = {.owner = "x", .size = 5000, .host = true};
	struct ledger_hit h;
	struct bo *b;

	rule("align", "x=8");
	rule("guard", "x=both");
	open_device(false);
	b = make(&d);
	cr_expect_eq(bo_va(b) - bo_base(b), 8192 - 5000);
	cr_expect_eq(bo_host(b), (void *)(uintptr_t)bo_va(b));
	cr_expect_eq(bo_size(b), 5000);
	cr_expect(touchable(bo_va(b) + 4999));
	cr_expect_not(touchable(bo_va(b) + 5000));
	cr_expect_not(touchable(bo_base(b) - 1));
	/* Nobody else gets the guards. */
	d.size = 4096;
	d.va = bo_base(b) + 8192;
	cr_expect_eq(bo_create(dev.memory, &d, &(struct bo *){NULL}), -EADDRINUSE);
	cr_assert(memory_near(dev.memory, bo_va(b) + 5000, &h));
	cr_expect_eq(h.offset, h.size, "the first byte past the end is the first past the buffer");
	cr_expect_eq(bo_destroy(b), 0);
	close_device();
}

Test(place, alignment_class_and_coherence_by_owner)
{
	struct ledger_record r[64];
	struct bo *b;

	rule("align", "big=1G");
	rule("place", "big=vram,fine,ro,exec");
	open_device(false);
	b = make(&(struct bo_desc){.owner = "big", .size = 4096});
	cr_expect_eq(bo_va(b) & ((1u << 30) - 1), 0);
	cr_assert_eq(memory_ledger(dev.memory, 0, r, 64), 2);
	cr_expect_eq(r[0].placement, BO_VRAM);
	cr_expect_eq(r[0].coherence, BO_FINE);
	cr_expect(r[0].readonly && r[0].executable && !r[0].host);
	cr_expect_eq(r[0].asked, 4096);
	cr_expect_eq(bo_destroy(b), 0);
	close_device();
}

/* The third class of memory by the same flag: the process's own, where the buffer is, for as long as it
 * lives. */
Test(place, user_memory_by_owner)
{
	struct bo_desc d = {.owner = "mine", .size = 8192, .host = true};
	struct ledger_record r[64];
	char place[64];
	struct bo *b;
	uint64_t va, wanted, n;

	open_device(false);
	/* The window is where nobody was before, in a process like this one not always the same. */
	b = make(&(struct bo_desc){.owner = "first", .size = 4096});
	wanted = bo_va(b) + (1ull << 39);
	cr_expect_eq(bo_destroy(b), 0);
	snprintf(place, sizeof(place), "mine=userptr,at:0x%llx", (unsigned long long)wanted);
	rule("place", place);
	rule("guard", "mine=both");
	rule("poison", "alloc=0x5a");
	cr_assert_eq(memory_rules_set(dev.memory, &rules), 0);
	b = make(&d);
	va = bo_va(b);
	cr_expect_eq(va, wanted);
	cr_expect_eq(bo_host(b), (void *)(uintptr_t)va);
	cr_expect_eq(((const uint8_t *)bo_host(b))[8191], 0x5a);
	cr_expect(touchable(va + 8191) && !touchable(va + 8192) && !touchable(va - 1));
	n = memory_ledger(dev.memory, 0, r, 64);
	cr_assert(n >= 2 && n <= 64 && r[n - 2].kind == LEDGER_ALLOC);
	cr_expect_eq(r[n - 2].placement, BO_USERPTR);
	cr_expect_eq(memory_live(dev.memory), 8192);
	cr_expect_eq(bo_destroy(b), 0);
	cr_expect_not(touchable(va), "memory stays where its buffer was");
	cr_expect_eq(memory_live(dev.memory), 0);
	/* Not what a client brings along: that is where it is. */
	d.owner = "theirs";
	d.userptr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_expect_eq(bo_create(dev.memory, &d, &b), -EINVAL,
		     "user memory that is asked for as GTT");
	munmap(d.userptr, 8192);
	close_device();
}

Test(place, random_by_seed)
{
	struct bo_desc d = {.owner = "x", .size = 1 << 20};
	uint64_t first[8], va[8];

	rule("va-seed", "42");
	for (int round = 0; round < 2; round++) {
		struct bo *b[8];

		open_device(false);
		for (int i = 0; i < 8; i++) {
			b[i] = make(&d);
			va[i] = bo_va(b[i]);
		}
		for (int i = 0; i < 8; i++)
			cr_expect_eq(bo_destroy(b[i]), 0);
		close_device();
		if (!round)
			memcpy(first, va, sizeof(va));
	}
	cr_expect_eq(memcmp(first, va, sizeof(va)), 0, "the same seed, other addresses");
	cr_expect_neq(va[0] + (1 << 20), va[1]);
}

Test(place, quarantine)
{
	struct bo_desc d = {.owner = "x", .size = 4096};
	uint64_t va, held;
	struct bo *b;

	rule("quarantine", "64K");
	open_device(false);
	b = make(&d);
	va = bo_va(b);
	cr_expect_eq(bo_destroy(b), 0);
	cr_expect_eq(memory_quarantined(dev.memory), 4096);
	b = make(&d);
	cr_expect_neq(bo_va(b), va, "a freed address came back at once");
	cr_expect_eq(bo_destroy(b), 0);
	/* It comes back when 64 KiB have been freed after it, not for ever. */
	for (int i = 0; i < 40; i++) {
		b = make(&d);
		held = memory_quarantined(dev.memory);
		cr_expect(held <= 65536, "%llu", (unsigned long long)held);
		cr_expect_eq(bo_destroy(b), 0);
	}
	d.va = va;
	b = make(&d); /* asked for by name it is given out, quarantine or not */
	cr_expect_eq(bo_destroy(b), 0);
	close_device();
}

Test(place, poison)
{
	struct bo_desc d = {.owner = "x", .size = 8192, .host = true};
	struct bo *b;
	uint8_t *p;

	rule("poison", "0xcb");
	open_device(false);
	b = make(&d);
	p = bo_host(b);
	for (int i = 0; i < 8192; i++)
		cr_assert_eq(p[i], 0xcb, "byte %d", i);
	cr_expect_eq(bo_destroy(b), 0);
	close_device();
}

Test(share, a_dmabuf_is_the_same_memory_at_another_address)
{
	struct ledger_record r[8];
	struct bo *b, *alias;
	int fd;

	rule("align", "alias=1M");
	open_device(false);
	b = make(&(struct bo_desc){.owner = "x", .size = 8192, .host = true});
	cr_assert_eq(bo_export(b, &fd), 0, "%s", kfd_reason());
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_assert_eq(bo_import(dev.memory, fd, &(struct bo_desc){.owner = "alias"}, &alias), 0,
		     "%s", kfd_reason());
	cr_expect_eq(bo_size(alias), 8192);
	cr_expect_eq(bo_va(alias) & ((1 << 20) - 1), 0);
	cr_expect_null(bo_host(alias));
	cr_assert_eq(memory_ledger(dev.memory, 2, r, 2), 5);
	cr_expect_eq(r[0].kind, LEDGER_EXPORT);
	cr_expect_eq(r[1].kind, LEDGER_IMPORT);
	cr_expect_eq(bo_destroy(b), 0);
	cr_expect_eq(bo_destroy(alias), 0);
	close(fd);
	cr_expect_lt(bo_import(dev.memory, fd, &(struct bo_desc){.owner = "alias"}, &alias), 0);
	close_device();
}

Test(place, red_zones_of_a_plan)
{
	struct plan_zone z[2] = {
		{.bo = PLAN_ACTIVATIONS, .graph = 0, .offset = 0, .bytes = 64, .tensor = "q"},
		{.bo = PLAN_KV, .graph = -1, .offset = 100, .bytes = 28, .tensor = "k_cache"},
	};
	struct plan p = {.zones = z, .n_zones = 2};
	struct bo *bo[PLAN_BO_COUNT] = {NULL};
	struct bo_desc d = {.owner = "a", .size = 4096, .host = true};
	char err[256];

	p.bo[PLAN_ACTIVATIONS].owner = "transient:activations";
	p.bo[PLAN_KV].owner = "kv";
	open_device(false);
	bo[PLAN_ACTIVATIONS] = make(&d);
	bo[PLAN_KV] = make(&d);
	zones_fill(&p, -1, bo);
	zones_fill(&p, 0, bo);
	cr_expect_eq(zones_check(&p, 0, bo, err, sizeof(err)), 0);
	((uint8_t *)bo_host(bo[PLAN_KV]))[128] ^= 1;
	((uint8_t *)bo_host(bo[PLAN_KV]))[99] ^= 1;
	cr_expect_eq(zones_check(&p, 0, bo, err, sizeof(err)), 0, "beside the zone: %s", err);
	((uint8_t *)bo_host(bo[PLAN_KV]))[127] ^= 1;
	cr_expect_eq(zones_check(&p, 0, bo, err, sizeof(err)), -EBADF);
	cr_expect(strstr(err, "tensor k_cache of \"kv\": 1 of 28 bytes") &&
			  strstr(err, "offset 0x7f"),
		  "%s", err);
	cr_expect_eq(bo_destroy(bo[PLAN_KV]), 0);
	cr_expect_eq(bo_destroy(bo[PLAN_ACTIVATIONS]), 0);
	close_device();
}

/* ---- the ledger, from outside ---- */

Test(ledger, shared_mapping)
{
	const struct ledger_header *h;
	const struct ledger_entry *e;
	char path[64], name[64] = "";
	struct bo *b;
	int fd;

	open_device(false);
	b = make(&(struct bo_desc){.owner = "weights", .size = 5000});
	cr_assert_eq(memory_place(b, "blk.0.attn_q", bo_va(b) + 256, 100, 0x1234), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory_ledger_fd(dev.memory));
	cr_assert(readlink(path, name, sizeof(name) - 1) > 0);
	cr_expect(strstr(name, "memfd:" LEDGER_NAME), "%s", name);
	fd = open(path, O_RDONLY);
	h = mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert_neq(h, MAP_FAILED);
	e = (const void *)((const char *)h + h->header_bytes);
	cr_expect_eq(memcmp(h->magic, LEDGER_MAGIC, 8), 0);
	cr_expect_eq(h->version, 3);
	cr_expect_eq(h->pid, (uint32_t)getpid());
	cr_expect_eq(h->gpu_id, kfd_gpu_id(dev.kfd));
	cr_expect_eq(h->live, 8192);
	cr_assert_eq(h->count, 5);
	cr_expect(e[0].kind == LEDGER_OWNER && !strcmp(e[0].name, "weights"));
	cr_expect(e[1].kind == LEDGER_ALLOC && e[1].owner == 0 && e[1].size == 8192 &&
		  e[1].asked == 5000 && e[1].generation == 1);
	cr_expect_eq(e[2].kind, LEDGER_MAP);
	cr_expect(e[3].kind == LEDGER_OWNER && e[3].owner == 1);
	cr_expect(e[4].kind == LEDGER_PLACE && e[4].owner == 1 && e[4].identity == 0x1234 &&
		  e[4].generation == 1);
	/* Readers see what happens next without asking. */
	cr_expect_eq(bo_destroy(b), 0);
	cr_expect_eq(__atomic_load_n(&h->count, __ATOMIC_ACQUIRE), 7);
	cr_expect_eq(e[6].kind, LEDGER_FREE);
	cr_expect_eq(h->live, 0);
	cr_expect_eq(h->peak, 8192);
	close(fd);
	close_device();
}

/* The uses that the ledger has of the last BO made, in the order they were entered. */
static unsigned uses_entered(unsigned *uses, unsigned max)
{
	uint64_t n = memory_ledger(dev.memory, 0, NULL, 0);
	struct ledger_record *r = calloc(n, sizeof(*r));
	unsigned found = 0;

	cr_assert(r);
	memory_ledger(dev.memory, 0, r, n);
	for (uint64_t i = 0; i < n; i++)
		if (r[i].kind == LEDGER_USE && r[i].generation == r[n - 1].generation &&
		    found < max)
			uses[found++] = r[i].uses;
	free(r);
	return found;
}

Test(ledger, uses_are_entered_once_and_never_on_the_way)
{
	unsigned uses[8];
	uint64_t n;
	struct bo *b;

	open_device(false);
	b = make(&(struct bo_desc){.owner = "kv",
				   .size = 8192,
				   .host = true,
				   .uses = BO_HOST_WRITES | BO_HOST_DECLARED});
	cr_assert_eq(uses_entered(uses, 8), 1);
	cr_expect_eq(uses[0], BO_HOST_WRITES | BO_HOST_DECLARED);
	/* What a step does enters nothing, whatever it is. */
	n = memory_ledger(dev.memory, 0, NULL, 0);
	bo_write(b, 0);
	bo_device_writes(b, NULL);
	bo_publish(b);
	bo_read(b, 0);
	cr_expect_eq(memory_ledger(dev.memory, 0, NULL, 0), n);
	cr_expect_eq(bo_uses(b),
		     BO_HOST_WRITES | BO_HOST_DECLARED | BO_DEVICE_WRITES | BO_HOST_READS);
	/* It is there when somebody asks for it, and once. */
	cr_assert_eq(memory_enter_uses(dev.memory), 0);
	cr_assert_eq(memory_enter_uses(dev.memory), 0);
	cr_assert_eq(uses_entered(uses, 8), 2);
	cr_expect_eq(uses[1], bo_uses(b));
	cr_assert_eq(bo_declare(b, BO_DEVICE_DECLARED), 0);
	cr_assert_eq(bo_declare(b, BO_DEVICE_DECLARED | BO_HOST_READS), 0);
	cr_assert_eq(uses_entered(uses, 8), 3);
	/* What came last is entered with the end. */
	bo_device_reads(b, 0, 4096, NULL);
	bo_publish(b);
	cr_assert_eq(bo_destroy(b), 0);
	cr_assert_eq(uses_entered(uses, 8), 4);
	cr_expect_eq(uses[3], 63);
	close_device();
}

Test(ledger, mem_names_what_is_never_read)
{
	static const char *const wanted[] = {
		"written, never read: 1\n  orphan #",
		"read, never written: 1\n  foundling #",
		"never touched: 2\n  idle #1, 4096 bytes at 0x",
		", freed\n  idle #",
		"unknown: 1\n",
	};
	struct bo_desc d = {.owner = "idle", .size = 4096, .uses = BO_DECLARED};
	char command[96], said[16384];
	struct bo *gone, *b[4];
	size_t n;
	FILE *p;

	open_device(false);
	gone = make(&d);
	cr_assert_eq(bo_destroy(gone), 0);
	b[0] = make(&d);
	d.owner = "orphan";
	d.uses = BO_HOST_WRITES | BO_DECLARED;
	b[1] = make(&d);
	d.owner = "foundling";
	d.uses = BO_DEVICE_READS | BO_DECLARED;
	b[2] = make(&d);
	d.owner = "stranger";
	d.uses = BO_HOST_WRITES | BO_HOST_DECLARED;
	b[3] = make(&d);
	snprintf(command, sizeof(command), "build/barewave mem --pid %d", getpid());
	p = popen(command, "r");
	cr_assert(p);
	n = fread(said, 1, sizeof(said) - 1, p);
	said[n] = '\0';
	cr_expect_eq(pclose(p), 0);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_expect(strstr(said, wanted[i]), "no '%s' in: %s", wanted[i], said);
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(bo_destroy(b[i]), 0);
	close_device();
}

Test(ledger, limits_are_held)
{
	const struct mem_limit limits[] = {{"kv", 8192}};
	struct bo_desc d = {.owner = "kv", .size = 4096};
	struct bo *a, *b, *none = NULL;

	open_device(false);
	cr_assert_eq(memory_limit(dev.memory, limits, 1), 0);
	a = make(&d);
	b = make(&d);
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EDQUOT);
	cr_expect(strstr(kfd_reason(), "\"kv\" of 4096 bytes is outside the plan: it has 8192"),
		  "%s", kfd_reason());
	cr_expect_eq(bo_destroy(a), 0);
	a = make(&d);
	d.owner = "other";
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EDQUOT);
	cr_expect_null(none);
	cr_assert_eq(memory_limit(dev.memory, NULL, 0), 0);
	cr_assert_eq(bo_create(dev.memory, &d, &none), 0);
	cr_expect(!bo_destroy(a) && !bo_destroy(b) && !bo_destroy(none));
	close_device();
}

/* ---- lifetimes ---- */

static bool flag(const void *ctx)
{
	return *(const bool *)ctx;
}

Test(lifetime, frees_wait_for_their_fence)
{
	bool done = false;
	const struct bo_fence f = {flag, &done};
	struct bw_teardown left;
	struct bo *b;

	open_device(false);
	b = make(&(struct bo_desc){.owner = "kv", .size = 4096});
	bo_fence_set(b, &f);
	cr_expect_eq(bo_retire(b), 1);
	cr_expect_eq(memory_live(dev.memory), 4096);
	cr_expect_eq(memory_reap(dev.memory), 1);
	cr_expect_eq(bw_device_close(&dev, &left), -EBUSY, "freed under a running device");
	cr_expect_eq(left.bos, 1);
	done = true;
	cr_expect_eq(memory_reap(dev.memory), 0);
	cr_expect_eq(memory_live(dev.memory), 0);
	close_device();
}

Test(lifetime, a_scope_ends_with_all_that_is_in_it)
{
	struct mem_scope *model, *context, *batch, *none = NULL;
	struct bo_desc d = {.owner = "x", .size = 4096};
	struct ledger_record r[4];
	bool done = false;
	struct bo *kv, *b;

	open_device(false);
	cr_assert_eq(mem_scope_create(dev.memory, SCOPE_MODEL, NULL, &model), 0);
	cr_assert_eq(mem_scope_create(dev.memory, SCOPE_CONTEXT, model, &context), 0);
	cr_assert_eq(mem_scope_create(dev.memory, SCOPE_BATCH, context, &batch), 0);
	cr_expect_eq(mem_scope_create(dev.memory, SCOPE_MODEL, context, &none), -EINVAL);
	d.scope = model, make(&d);
	d.scope = context, kv = make(&d);
	d.scope = batch, b = make(&d);
	cr_expect_eq(memory_ledger(dev.memory, 2, r, 1), 6);
	cr_expect_eq(r[0].scope, SCOPE_CONTEXT);
	cr_expect_eq(bo_destroy(b), 0, "by hand, before its scope");
	bo_fence_set(kv, &(struct bo_fence){flag, &done});
	cr_expect_eq(mem_scope_end(context), 1, "one of them waits");
	cr_expect_eq(memory_live_count(dev.memory), 2);
	cr_expect_eq(mem_scope_end(model), 0);
	cr_expect_eq(memory_live_count(dev.memory), 1);
	done = true;
	close_device();
}

Test(lifetime, an_open_scope_is_no_clean_end)
{
	struct mem_scope *s;
	struct bw_teardown t;

	open_device(false);
	cr_assert_eq(mem_scope_create(dev.memory, SCOPE_REQUEST, NULL, &s), 0);
	cr_expect_eq(bw_device_close(&dev, &t), -EBUSY);
	cr_expect_eq(mem_scope_end(s), 0);
	close_device();
}

/* ---- publication ---- */

Test(publish, a_host_read_before_publication_aborts, .signal = SIGABRT)
{
	struct bo *b;

	open_device(false);
	b = make(&(struct bo_desc){.owner = "logits", .size = 4096, .host = true});
	cr_assert_eq(bo_read(b, 16), (char *)bo_host(b) + 16);
	bo_device_writes(b, NULL);
	cr_assert_not(bo_published(b));
	bo_publish(b);
	cr_assert_eq(bo_read(b, 0), bo_host(b));
	bo_device_writes(b, NULL);
	bo_read(b, 0);
}

Test(publish, a_host_write_before_publication_aborts, .signal = SIGABRT)
{
	struct bo *b;

	open_device(false);
	b = make(&(struct bo_desc){.owner = "staging", .size = 4096, .host = true});
	bo_write(b, 0);
	bo_device_writes(b, NULL);
	bo_write(b, 0);
}

/* ---- the copy engine ---- */

static void sdma_run(struct sdma *s)
{
	char why[256] = "";
	int64_t n = sdma_submit(s);

	cr_assert(n > 0);
	cr_assert_eq(sdma_wait(s, n, 100000000000, why, sizeof(why)), 0, "%s", why);
	cr_assert(sdma_done(s, n));
}

Test(sdma, copies_fills_and_counts)
{
	struct bo_desc d = {.owner = "a", .size = 6u << 20, .host = true};
	struct bo *a, *b;
	struct sdma *s;
	uint8_t *p, *q;
	uint64_t t[2];

	open_device(false);
	cr_assert_eq(sdma_create(dev.kfd, dev.memory, 0, &s), 0, "%s", kfd_reason());
	a = make(&d);
	d.owner = "b";
	b = make(&d);
	p = bo_host(a);
	q = bo_host(b);
	for (uint32_t i = 0; i < d.size; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 11));
	/* Unaligned on both sides, over two 2 MiB boundaries. */
	memset(q, 0xee, d.size);
	cr_assert_eq(sdma_timestamp(s, 0), 0);
	cr_assert_eq(sdma_copy(s, bo_va(b) + 4093, bo_va(a) + 7, (5u << 20) + 3), 0);
	cr_assert_eq(sdma_timestamp(s, 1), 0);
	sdma_run(s);
	cr_expect_eq(q[4092], 0xee);
	cr_expect_eq(memcmp(q + 4093, p + 7, (5u << 20) + 3), 0);
	cr_expect_eq(q[4093 + (5u << 20) + 3], 0xee);
	t[0] = sdma_timestamp_get(s, 0), t[1] = sdma_timestamp_get(s, 1);
	cr_expect(t[0] && t[1] > t[0], "%llu %llu", (unsigned long long)t[0],
		  (unsigned long long)t[1]);
	cr_assert_eq(sdma_fill(s, bo_va(b) + 8, 0x01020304, (3u << 20) + 4), 0);
	sdma_run(s);
	cr_expect_eq(q[7], 0xee);
	cr_expect_eq(*(uint32_t *)(q + 8), 0x01020304);
	cr_expect_eq(*(uint32_t *)(q + 8 + (3u << 20)), 0x01020304);
	cr_expect_eq(q[8 + (3u << 20) + 4], p[8 + (3u << 20) + 4 - 4093 + 7]);
	cr_expect_eq(sdma_fill(s, bo_va(b) + 2, 0, 4), -EINVAL);
	cr_expect_eq(sdma_destroy(s), 0);
	cr_expect(!bo_destroy(a) && !bo_destroy(b));
	close_device();
}

/* Many rounds of a small ring: the read pointer frees what it passed, packets never straddle the
 * end, and a ring that is full says so without having taken half of a command. */
Test(sdma, the_ring_wraps)
{
	struct bo_desc d = {.owner = "a", .size = 8192, .host = true};
	struct bo *a;
	struct sdma *s;
	uint8_t *p;
	int rc;

	open_device(false);
	cr_assert_eq(sdma_create(dev.kfd, dev.memory, 4096, &s), 0, "%s", kfd_reason());
	a = make(&d);
	p = bo_host(a);
	for (uint32_t round = 0; round < 500; round++) {
		p[0] = (uint8_t)round;
		for (unsigned i = 0; i <= round % 5; i++)
			cr_assert_eq(sdma_copy(s, bo_va(a) + 1 + i, bo_va(a) + i, 1), 0);
		sdma_run(s);
		cr_assert_eq(p[1 + round % 5], (uint8_t)round, "round %u", round);
	}
	while ((rc = sdma_copy(s, bo_va(a) + 100, bo_va(a), 10)) == 0)
		;
	cr_expect_eq(rc, -EAGAIN);
	sdma_run(s);
	cr_expect_eq(sdma_copy(s, bo_va(a) + 100, bo_va(a), 10), 0);
	cr_expect_eq(sdma_copy(s, bo_va(a), bo_va(a), 1ull << 40), -EAGAIN);
	sdma_run(s);
	cr_expect_eq(sdma_destroy(s), 0);
	cr_expect_eq(bo_destroy(a), 0);
	close_device();
}

Test(sdma, a_fault_names_the_dead_buffer)
{
	struct bo_desc d = {.owner = "gone", .size = 65536};
	char why[256] = "";
	struct bo *a, *b;
	struct sdma *s;
	uint64_t va;

	open_device(false);
	cr_assert_eq(sdma_create(dev.kfd, dev.memory, 0, &s), 0, "%s", kfd_reason());
	a = make(&d);
	va = bo_va(a);
	cr_expect_eq(bo_destroy(a), 0);
	d.owner = "dst", d.va = va + (1 << 20);
	b = make(&d);
	cr_assert_eq(sdma_copy(s, bo_va(b), va + 0x3000, 64), 0);
	cr_expect_eq(sdma_wait(s, sdma_submit(s), 100000000000, why, sizeof(why)), -EFAULT);
	cr_expect(strstr(why, "\"gone\"") && strstr(why, "freed"), "%s", why);
	sdma_destroy(s);
	cr_expect_eq(bo_destroy(b), 0);
	close_device();
}

Test(sdma, refusals)
{
	struct sdma *s[9] = {NULL}, *none = NULL;
	int n = 0;

	open_device(false);
	cr_expect_eq(sdma_create(dev.kfd, dev.memory, 5000, &none), -EINVAL);
	while (n < 9 && sdma_create(dev.kfd, dev.memory, 0, &s[n]) == 0)
		n++;
	cr_expect_eq(n, 6, "the kernel keeps two of eight");
	cr_expect(strstr(kfd_reason(), "CREATE_QUEUE"), "%s", kfd_reason());
	while (n)
		cr_expect_eq(sdma_destroy(s[--n]), 0);
	cr_expect_null(none);
	close_device();
}

/* What freeing leaves behind, seen through another mapping of the same memory. */
Test(place, poison_at_free)
{
	struct bo_desc d = {.owner = "x", .size = 8192, .host = true};
	struct bo *b, *alias, *out;
	struct sdma *s;
	uint8_t *p;
	int fd;

	rule("poison", "free=0x34");
	open_device(false);
	cr_assert_eq(sdma_create(dev.kfd, dev.memory, 0, &s), 0, "%s", kfd_reason());
	b = make(&d);
	memset(bo_host(b), 1, 8192);
	cr_assert_eq(bo_export(b, &fd), 0, "%s", kfd_reason());
	cr_assert_eq(bo_import(dev.memory, fd, &(struct bo_desc){.owner = "alias"}, &alias), 0);
	d.owner = "out";
	out = make(&d);
	p = bo_host(out);
	cr_assert_eq(sdma_copy(s, bo_va(out), bo_va(alias), 8192), 0);
	sdma_run(s);
	cr_expect_eq(p[0] + p[8191], 2);
	cr_expect_eq(bo_destroy(b), 0);
	cr_assert_eq(sdma_copy(s, bo_va(out), bo_va(alias), 8192), 0);
	sdma_run(s);
	cr_expect(p[0] == 0x34 && p[8191] == 0x34, "%02x", p[0]);
	close(fd);
	cr_expect_eq(sdma_destroy(s), 0);
	cr_expect(!bo_destroy(alias) && !bo_destroy(out));
	close_device();
}
