/* A client over Debian's libhsakmt: opens, reads the topology, allocates every kind, maps,
 * registers user memory, makes AQL, PM4 and SDMA queues, submits on each, waits on events, tears
 * down. Every result is checked.
 *
 *   hsakmt_client refused            queues as a kernel of 2026 answers this library
 *   hsakmt_client full VECADD.co     a kernel that its queues were made for
 *   hsakmt_client queues             one queue of each type, for a trace of their arguments
 */
#include <hsakmt.h>

#include <errno.h>
#include <time.h>

#include "tests/clients/client.h"
#include "tests/clients/packets.h"

#define GPU  1u
#define PAGE 4096u

static const char *status_name(HSAKMT_STATUS s)
{
	static char text[16];

	snprintf(text, sizeof(text), "status %d", s);
	return text;
}

#define ok(call)                                                                                   \
	({                                                                                         \
		HSAKMT_STATUS s_ = (call);                                                         \
		check(s_ == HSAKMT_STATUS_SUCCESS, "%s: %s", #call, status_name(s_));              \
	})
#define must(call)                                                                                 \
	do {                                                                                       \
		HSAKMT_STATUS s_ = (call);                                                         \
		need(s_ == HSAKMT_STATUS_SUCCESS, "%s: %s", #call, status_name(s_));               \
	} while (0)
#define fails(status, call)                                                                        \
	({                                                                                         \
		HSAKMT_STATUS s_ = (call);                                                         \
		check(s_ == (status), "%s: %s, wanted %d", #call, status_name(s_), (status));      \
	})

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Until *p is v, 10 s at most. */
static bool wait32(volatile uint32_t *p, uint32_t v)
{
	for (uint64_t end = now_ms() + 10000; *p != v; usleep(50)) {
		if (now_ms() > end)
			return false;
	}
	return true;
}

static bool wait64(volatile int64_t *p, int64_t v)
{
	for (uint64_t end = now_ms() + 10000; *p != v; usleep(50)) {
		if (now_ms() > end)
			return false;
	}
	return true;
}

/* ---- topology ---- */

static void topology(void)
{
	HsaVersionInfo version;
	HsaSystemProperties sys;
	HsaNodeProperties cpu, gpu;
	HsaMemoryProperties mem[5];
	HsaIoLinkProperties link[2];
	HsaClockCounters a, b;
	HsaCacheProperties *cache;
	unsigned level[4] = {0};

	ok(hsaKmtGetVersion(&version));
	check(version.KernelInterfaceMajorVersion == 1, "KFD major %u",
	      version.KernelInterfaceMajorVersion);
	check(version.KernelInterfaceMinorVersion >= 17, "KFD minor %u",
	      version.KernelInterfaceMinorVersion);
	must(hsaKmtAcquireSystemProperties(&sys));
	need(sys.NumNodes == 2, "%u nodes", sys.NumNodes);
	must(hsaKmtGetNodeProperties(0, &cpu));
	must(hsaKmtGetNodeProperties(GPU, &gpu));
	check(cpu.NumCPUCores == (unsigned)sysconf(_SC_NPROCESSORS_ONLN), "%u CPUs",
	      cpu.NumCPUCores);
	check(!cpu.NumFComputeCores && !gpu.NumCPUCores, "a node is both CPU and GPU");
	check(gpu.NumFComputeCores == 80, "%u SIMDs", gpu.NumFComputeCores);
	check(gpu.NumSIMDPerCU == 2, "%u SIMDs per CU", gpu.NumSIMDPerCU);
	check(gpu.WaveFrontSize == 32, "wave of %u", gpu.WaveFrontSize);
	check(gpu.MaxWavesPerSIMD == 16, "%u waves per SIMD", gpu.MaxWavesPerSIMD);
	/* This library reports the kernel's array_count as it is; newer ones divide. */
	check(gpu.NumShaderBanks == 4 && gpu.NumArrays == 2 && gpu.NumCUPerArray == 10,
	      "%u arrays in all, %u per engine, %u CUs each", gpu.NumShaderBanks, gpu.NumArrays,
	      gpu.NumCUPerArray);
	check(gpu.LDSSizeInKB == 64 && !gpu.GDSSizeInKB, "LDS %u KB, GDS %u KB", gpu.LDSSizeInKB,
	      gpu.GDSSizeInKB);
	check(gpu.EngineId.ui32.Major == 11 && gpu.EngineId.ui32.Minor == 5 &&
		      gpu.EngineId.ui32.Stepping == 1,
	      "gfx%u.%u.%u", gpu.EngineId.ui32.Major, gpu.EngineId.ui32.Minor,
	      gpu.EngineId.ui32.Stepping);
	check(gpu.VendorId == 0x1002 && gpu.DeviceId == 0x1586, "%04x:%04x", gpu.VendorId,
	      gpu.DeviceId);
	check(gpu.DrmRenderMinor == 128, "render node %d", gpu.DrmRenderMinor);
	check(gpu.Capability.ui32.DoorbellType == 2, "doorbell type %u",
	      gpu.Capability.ui32.DoorbellType);
	check(gpu.Capability.ui32.SVMAPISupported, "no SVM");
	check(gpu.NumSdmaEngines == 1 && gpu.NumSdmaQueuesPerEngine == 6, "%u engines of %u",
	      gpu.NumSdmaEngines, gpu.NumSdmaQueuesPerEngine);
	/* The kernel's one, and those that the library knows of: LDS, scratch, SVM, MMIO. */
	need(gpu.NumMemoryBanks == 5, "%u banks", gpu.NumMemoryBanks);
	must(hsaKmtGetNodeMemoryProperties(GPU, gpu.NumMemoryBanks, mem));
	check(mem[0].SizeInBytes >= 1ull << 30, "GPU memory %llu",
	      (unsigned long long)mem[0].SizeInBytes);
	must(hsaKmtGetNodeMemoryProperties(0, 1, mem));
	check(mem[0].HeapType == HSA_HEAPTYPE_SYSTEM, "CPU heap %d", mem[0].HeapType);
	check(gpu.NumIOLinks == 1 && cpu.NumIOLinks == 1, "%u and %u links", cpu.NumIOLinks,
	      gpu.NumIOLinks);
	must(hsaKmtGetNodeIoLinkProperties(GPU, 1, link));
	check(link[0].NodeFrom == GPU && link[0].NodeTo == 0 && link[0].Weight == 20 &&
		      link[0].IoLinkType == HSA_IOLINKTYPE_PCIEXPRESS,
	      "link %u -> %u, weight %u, type %d", link[0].NodeFrom, link[0].NodeTo, link[0].Weight,
	      link[0].IoLinkType);
	cache = calloc(gpu.NumCaches, sizeof(*cache));
	must(hsaKmtGetNodeCacheProperties(GPU, gpu.FComputeIdLo, gpu.NumCaches, cache));
	for (unsigned i = 0; i < gpu.NumCaches; i++) {
		if (cache[i].CacheLevel < 4)
			level[cache[i].CacheLevel]++;
	}
	/* 40 vector caches, 20 of either kind per WGP, 4 of shader arrays; L2; MALL. */
	check(level[1] == 84 && level[2] == 1 && level[3] == 1, "caches: %u L1, %u L2, %u L3",
	      level[1], level[2], level[3]);
	free(cache);
	fails(HSAKMT_STATUS_INVALID_NODE_UNIT, hsaKmtGetNodeProperties(2, &cpu));
	ok(hsaKmtGetClockCounters(GPU, &a));
	ok(hsaKmtGetClockCounters(GPU, &b));
	check(b.GPUClockCounter >= a.GPUClockCounter && b.SystemClockCounter > a.SystemClockCounter,
	      "clocks run backwards");
	check(a.SystemClockFrequencyHz == 1000000000, "system clock of %llu Hz",
	      (unsigned long long)a.SystemClockFrequencyHz);
}

/* ---- memory ---- */

#define BYTES (64u << 10)

static struct kind {
	const char *name;
	unsigned node;
	HsaMemFlags flags;
	bool host;
	uint32_t *p;
} kinds[] = {
	{"system, paged", 0, {.ui32 = {.HostAccess = 1, .NoSubstitute = 1}}, true, NULL},
	{"system, read-only",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .ReadOnly = 1}},
	 true,
	 NULL},
	{"system, coarse",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .CoarseGrain = 1}},
	 true,
	 NULL},
	{"system, executable",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .ExecuteAccess = 1}},
	 true,
	 NULL},
	{"system, uncached",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .Uncached = 1}},
	 true,
	 NULL},
	{"system, locked",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .NonPaged = 1}},
	 true,
	 NULL},
	{"system, 2 MiB pages",
	 0,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .PageSize = HSA_PAGE_SIZE_2MB}},
	 true,
	 NULL},
	{"local, private", GPU, {.ui32 = {.NoSubstitute = 1, .NonPaged = 1}}, false, NULL},
	{"local, public",
	 GPU,
	 {.ui32 = {.HostAccess = 1, .NoSubstitute = 1, .NonPaged = 1}},
	 true,
	 NULL},
	{"local, coarse, executable",
	 GPU,
	 {.ui32 = {.HostAccess = 1,
		   .NoSubstitute = 1,
		   .NonPaged = 1,
		   .CoarseGrain = 1,
		   .ExecuteAccess = 1}},
	 true,
	 NULL},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint32_t *user_memory;     /* registered, not allocated */
static uint32_t *user_memory_gpu; /* the GPU has it elsewhere */

static void *allocate(unsigned node, HsaMemFlags f, uint64_t bytes, const char *name)
{
	HSAuint64 alt = 0;
	void *p = NULL;
	HSAKMT_STATUS s = hsaKmtAllocMemory(node, bytes, f, &p);

	need(s == HSAKMT_STATUS_SUCCESS, "%s: hsaKmtAllocMemory: %s", name, status_name(s));
	s = hsaKmtMapMemoryToGPU(p, bytes, &alt);
	need(s == HSAKMT_STATUS_SUCCESS, "%s: hsaKmtMapMemoryToGPU: %s", name, status_name(s));
	return p;
}

/* Uncached memory of the host, executable: rings, code, whatever both sides look at. */
static void *shared_memory(uint64_t bytes, bool locked)
{
	return allocate(0,
			(HsaMemFlags){.ui32 = {.HostAccess = 1,
					       .NoSubstitute = 1,
					       .ExecuteAccess = 1,
					       .Uncached = 1,
					       .NonPaged = locked}},
			bytes, locked ? "locked host memory" : "host memory");
}

static void release(void *p, uint64_t bytes)
{
	ok(hsaKmtUnmapMemoryToGPU(p));
	ok(hsaKmtFreeMemory(p, bytes));
}

static uint64_t kind_bytes(const struct kind *k)
{
	return k->flags.ui32.PageSize == HSA_PAGE_SIZE_2MB ? 2u << 20 : BYTES;
}

static void allocate_every_kind(void)
{
	HsaMemFlags flags = {.ui32 = {.Scratch = 1}};
	HsaPointerInfo info;
	HSAuint64 alt;
	void *p = NULL;

	for (unsigned i = 0; i < KINDS; i++)
		kinds[i].p = allocate(kinds[i].node, kinds[i].flags, kind_bytes(&kinds[i]),
				      kinds[i].name);
	ok(hsaKmtQueryPointerInfo(kinds[7].p + 1, &info));
	check(info.Type == HSA_POINTER_ALLOCATED && info.Node == GPU && info.SizeInBytes == BYTES,
	      "pointer info: type %d, node %u, %llu bytes", info.Type, info.Node,
	      (unsigned long long)info.SizeInBytes);

	user_memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(user_memory != MAP_FAILED, "mmap");
	ok(hsaKmtRegisterMemory(user_memory, BYTES));
	ok(hsaKmtMapMemoryToGPU(user_memory, BYTES, &alt));
	user_memory_gpu = (uint32_t *)(uintptr_t)alt;
	check(alt != 0, "registered memory has no address on the GPU");
	ok(hsaKmtQueryPointerInfo(user_memory, &info));
	check(info.Type == HSA_POINTER_REGISTERED_USER, "pointer type %d", info.Type);

	/* Scratch is an address range first; memory comes with the mapping. */
	ok(hsaKmtAllocMemory(GPU, 1 << 20, flags, &p));
	ok(hsaKmtMapMemoryToGPU(p, 1 << 20, &alt));
	release(p, 1 << 20);

	fails(HSAKMT_STATUS_INVALID_PARAMETER, hsaKmtAllocMemory(0, 0, kinds[0].flags, &p));
	fails(HSAKMT_STATUS_INVALID_PARAMETER, hsaKmtAllocMemory(0, 100, kinds[0].flags, &p));
	fails(HSAKMT_STATUS_INVALID_NODE_UNIT, hsaKmtAllocMemory(7, PAGE, kinds[0].flags, &p));
}

static void free_every_kind(void)
{
	for (unsigned i = 0; i < KINDS; i++)
		release(kinds[i].p, kind_bytes(&kinds[i]));
	ok(hsaKmtUnmapMemoryToGPU(user_memory));
	ok(hsaKmtDeregisterMemory(user_memory));
	check(!munmap(user_memory, BYTES), "munmap");
}

/* ---- events ---- */

static HsaEvent *event(HSA_EVENTTYPE type, bool manual)
{
	HsaEventDescriptor d = {.EventType = type, .NodeId = GPU};
	HsaEvent *e = NULL;

	must(hsaKmtCreateEvent(&d, manual, false, &e));
	return e;
}

static void events(void)
{
	HsaEvent *manual = event(HSA_EVENTTYPE_SIGNAL, true), *once;
	HsaEvent *both[2];
	uint64_t t;

	once = event(HSA_EVENTTYPE_SIGNAL, false);
	both[0] = manual;
	both[1] = once;
	check(manual->EventId != once->EventId, "two events, one id %u", once->EventId);
	t = now_ms();
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnEvent(manual, 50));
	check(now_ms() - t >= 50, "a wait of 50 ms ended after %u ms", (unsigned)(now_ms() - t));
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnEvent(manual, 0));
	ok(hsaKmtSetEvent(manual));
	ok(hsaKmtWaitOnEvent(manual, 0));
	ok(hsaKmtWaitOnEvent(manual, 0));
	ok(hsaKmtResetEvent(manual));
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnEvent(manual, 0));
	ok(hsaKmtSetEvent(once));
	ok(hsaKmtWaitOnEvent(once, 0));
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnEvent(once, 0));
	ok(hsaKmtSetEvent(once));
	ok(hsaKmtWaitOnMultipleEvents(both, 2, false, 1000));
	ok(hsaKmtSetEvent(manual));
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnMultipleEvents(both, 2, true, 0));
	ok(hsaKmtSetEvent(once));
	ok(hsaKmtWaitOnMultipleEvents(both, 2, true, 1000));
	ok(hsaKmtDestroyEvent(once));
	ok(hsaKmtDestroyEvent(manual));
}

/* The event's slot: what the engine writes there tells the kernel whose interrupt it was. */
static volatile uint32_t *mailbox(const HsaEvent *e)
{
	return (volatile uint32_t *)(uintptr_t)e->EventData.HWData2;
}

/* ---- SDMA ---- */

static void *const no_event;

static void sdma(void)
{
	struct ring r;
	HsaQueueResource q = {0};
	HsaEvent *e = event(HSA_EVENTTYPE_SIGNAL, false);
	volatile uint32_t *fence = shared_memory(PAGE, true);
	uint32_t *from = shared_memory(BYTES, false), *back = shared_memory(BYTES, true);
	uint32_t n = 0;

	ring_init(&r, shared_memory(16384, false), 16384, true);
	must(hsaKmtCreateQueue(GPU, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, r.base, r.bytes,
			       no_event, &q));
	ring_attach(&r, q.Queue_DoorBell_aql, q.Queue_write_ptr_aql);

	/* Through every kind of memory and back. */
	for (unsigned i = 0; i <= KINDS; i++) {
		bool user = i == KINDS;
		uint32_t *to = user ? user_memory_gpu : kinds[i].p;
		const char *name = user ? "user memory" : kinds[i].name;

		if (!user && kinds[i].flags.ui32.ReadOnly)
			continue;
		for (unsigned k = 0; k < BYTES / 4; k++)
			from[k] = k * 2654435761u + i;
		memset(back, 0, BYTES);
		sdma_copy(&r, to, from, BYTES);
		sdma_copy(&r, back, to, BYTES);
		sdma_fence(&r, fence, ++n);
		ring_go(&r);
		check(wait32(fence, n), "%s: SDMA fence is %u, wanted %u", name, *fence, n);
		check(!memcmp(back, from, BYTES), "%s: not what was copied there", name);
		if (user || kinds[i].host)
			check(!memcmp(user ? user_memory : to, from, BYTES),
			      "%s: the host sees something else", name);
	}
	sdma_fill(&r, back, 0x5a5a1234, BYTES);
	sdma_write(&r, back, 77);
	sdma_fence(&r, fence, ++n);
	sdma_fence(&r, mailbox(e), e->EventId);
	sdma_trap(&r, e->EventId);
	ring_go(&r);
	ok(hsaKmtWaitOnEvent(e, 10000));
	check(*fence == n, "the trap came before its fence: %u, wanted %u", *fence, n);
	check(back[0] == 77 && back[1] == 0x5a5a1234 && back[BYTES / 4 - 1] == 0x5a5a1234,
	      "filled with %x, %x", back[0], back[1]);

	/* Disabled, the queue runs nothing; enabled again it catches up. */
	ok(hsaKmtUpdateQueue(q.QueueId, 0, HSA_QUEUE_PRIORITY_NORMAL, r.base, r.bytes, no_event));
	sdma_fence(&r, fence, ++n);
	ring_go(&r);
	usleep(50000);
	check(*fence == n - 1, "a queue of 0%% ran");
	ok(hsaKmtUpdateQueue(q.QueueId, 100, HSA_QUEUE_PRIORITY_HIGH, r.base, r.bytes, no_event));
	check(wait32(fence, n), "the queue did not go on");
	check(*q.Queue_read_ptr_aql == r.wptr, "read pointer %llu of %llu",
	      (unsigned long long)*q.Queue_read_ptr_aql, (unsigned long long)r.wptr);
	ok(hsaKmtDestroyQueue(q.QueueId));
	release(r.base, r.bytes);
	release(from, BYTES);
	release(back, BYTES);
	release((void *)fence, PAGE);
	ok(hsaKmtDestroyEvent(e));
}

/* ---- kernels ---- */

struct vecadd_args {
	const float *a, *b;
	float *c;
	uint32_t n;
};
#define N 1000u

static char *code; /* executable */
static uint64_t code_size, descriptor;

static void load_code(const char *path)
{
	size_t size;
	void *elf = read_file(path, &size);

	need(elf != NULL, "%s: %s", path, strerror(errno));
	code_size = (image_bytes(elf) + PAGE - 1) & ~(PAGE - 1ull);
	code = shared_memory(code_size, false);
	descriptor = image_place(elf, code, "vecadd.kd");
	need(descriptor != 0, "no kernel vecadd in %s", path);
	free(elf);
}

static void vecadd_fill(struct vecadd_args *k, void *data)
{
	float *a = data, *b = a + N, *c = b + N;

	for (unsigned i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = (float)(3 * i + 1);
		c[i] = -1;
	}
	c[N] = -1; /* behind the end: must stay */
	*k = (struct vecadd_args){a, b, c, N};
}

static void vecadd_check(const struct vecadd_args *k, const char *who)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < N; i++)
		bad += k->c[i] != (float)(4 * i + 1);
	check(!bad, "%s: %u of %u sums are wrong", who, bad, N);
	check(k->c[N] == -1, "%s: wrote behind the end", who);
}

/* ---- PM4 ---- */

static void pm4_vecadd(struct ring *r, const struct vecadd_args *k)
{
	const struct kernel_descriptor *d = (const void *)(code + descriptor);
	uint64_t entry = (uint64_t)(uintptr_t)code + descriptor + (uint64_t)d->entry;
	uint64_t args = (uint64_t)(uintptr_t)k;

	pm4_sh(r, 0x2e07, 3, (uint32_t[]){256, 1, 1});
	pm4_sh(r, 0x2e0c, 2, (uint32_t[]){(uint32_t)(entry >> 8), (uint32_t)(entry >> 40)});
	pm4_sh(r, 0x2e12, 2, (uint32_t[]){d->rsrc1, d->rsrc2});
	pm4_sh(r, 0x2e28, 1, &d->rsrc3);
	pm4_sh(r, 0x2e40, 2, (uint32_t[]){(uint32_t)args, (uint32_t)(args >> 32)});
	pm4_dispatch(r, (N + 255) / 256, 1, 1);
}

static void pm4(void)
{
	struct ring r;
	HsaQueueResource q = {0};
	HsaEvent *e = event(HSA_EVENTTYPE_SIGNAL, false);
	volatile uint32_t *word = shared_memory(PAGE, true);
	volatile uint64_t *stamp = (volatile uint64_t *)(word + 16);
	void *data = shared_memory(4 * PAGE, false);
	struct vecadd_args *k = shared_memory(PAGE, false);
	uint32_t mask[2] = {0xf, 0};

	ring_init(&r, shared_memory(PAGE, false), PAGE, false);
	must(hsaKmtCreateQueue(GPU, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, r.base,
			       r.bytes, no_event, &q));
	ring_attach(&r, q.Queue_DoorBell_aql, q.Queue_write_ptr_aql);
	pm4_write(&r, word, 0x1234);
	pm4_write(&r, word + 1, 0x5678);
	ring_go(&r);
	check(wait32(word + 1, 0x5678) && word[0] == 0x1234, "WRITE_DATA left %x, %x", word[0],
	      word[1]);

	/* A fence with its interrupt: the event of the fence's id. */
	pm4_release(&r, word + 2, 42, 0);
	pm4_release(&r, mailbox(e), e->EventId, e->EventId);
	ring_go(&r);
	ok(hsaKmtWaitOnEvent(e, 10000));
	check(word[2] == 42, "the event came before its fence: %u", word[2]);
	fails(HSAKMT_STATUS_WAIT_TIMEOUT, hsaKmtWaitOnEvent(e, 0));

	/* Waits for the host, then goes on. */
	pm4_wait(&r, word + 3, 9);
	pm4_write(&r, word + 4, 1);
	ring_go(&r);
	usleep(20000);
	check(word[4] == 0, "WAIT_REG_MEM did not wait");
	word[3] = 9;
	check(wait32(word + 4, 1), "WAIT_REG_MEM did not go on");

	vecadd_fill(k, data);
	pm4_acquire(&r);
	pm4_vecadd(&r, k);
	pm4_stamp(&r, stamp);
	pm4_release(&r, word + 5, 7, 0);
	pm4_release(&r, mailbox(e), e->EventId, e->EventId);
	ring_go(&r);
	ok(hsaKmtWaitOnEvent(e, 10000));
	check(word[5] == 7 && *stamp != 0, "fence %u, time %llu", word[5],
	      (unsigned long long)*stamp);
	vecadd_check(k, "PM4 dispatch");

	/* Many times round the ring. */
	for (unsigned i = 0; i < 500; i++) {
		pm4_write(&r, word + 6, i);
		pm4_release(&r, word + 7, i + 1, 0);
		ring_go(&r);
		if (!check(wait32(word + 7, i + 1), "round %u never came", i))
			break;
	}
	check(word[6] == 499, "the last write was %u", word[6]);

	ok(hsaKmtSetQueueCUMask(q.QueueId, 64, mask));
	mask[0] = 1;
	check(hsaKmtSetQueueCUMask(q.QueueId, 64, mask) != HSAKMT_STATUS_SUCCESS,
	      "half a WGP was accepted as CU mask");
	ok(hsaKmtDestroyQueue(q.QueueId));
	release(r.base, r.bytes);
	release((void *)word, PAGE);
	release(data, 4 * PAGE);
	release(k, PAGE);
	ok(hsaKmtDestroyEvent(e));
}

/* ---- AQL ---- */

/* The queue's own memory, as the packet processor's firmware reads it. */
struct queue_page {
	struct amd_queue queue;
	struct amd_signal doorbell, inactive, done, dep;
};

static void aql_queue(struct queue_page *p, void *ring, uint32_t packets, HsaQueueResource *q)
{
	uint16_t *header = ring;

	memset(p, 0, sizeof(*p));
	for (uint32_t i = 0; i < packets; i++)
		header[i * 32] = AQL_INVALID;
	p->queue.features = 1;
	p->queue.ring = (uint64_t)(uintptr_t)ring;
	p->queue.doorbell_signal = (uint64_t)(uintptr_t)&p->doorbell;
	p->queue.size = packets;
	p->queue.id = 1;
	p->queue.group_aperture_hi = 0x10000;
	p->queue.private_aperture_hi = 0x20000;
	p->queue.max_cu_id = 39;
	p->queue.max_wave_id = 31;
	p->queue.read_id_offset = offsetof(struct amd_queue, read_id);
	p->queue.srd[1] = 0x40000000;
	p->queue.srd[3] = 0x20814fac;
	p->queue.properties = 2;
	p->queue.inactive_signal = (uint64_t)(uintptr_t)&p->inactive;
	p->doorbell.kind = -1;
	p->doorbell.queue = (uint64_t)(uintptr_t)p;
	p->inactive.kind = p->done.kind = p->dep.kind = 1;
	*q = (HsaQueueResource){.Queue_write_ptr_aql = (HSAuint64 *)&p->queue.write_id,
				.Queue_read_ptr_aql = (HSAuint64 *)&p->queue.read_id};
}

/* Body first, header last, index, doorbell. */
static void aql_submit(struct queue_page *p, const HsaQueueResource *q, const void *packet)
{
	uint64_t i = p->queue.write_id;
	char *slot = (char *)(uintptr_t)p->queue.ring + i % p->queue.size * 64;

	memcpy(slot + 4, (const char *)packet + 4, 60);
	__atomic_store_n((uint32_t *)slot, *(const uint32_t *)packet, __ATOMIC_RELEASE);
	__atomic_store_n(&p->queue.write_id, i + 1, __ATOMIC_RELEASE);
	__atomic_store_n(q->Queue_DoorBell_aql, i, __ATOMIC_RELEASE);
}

static void aql(void)
{
	struct queue_page *p = shared_memory(PAGE, true);
	char *ring = shared_memory(PAGE, false);
	void *data = shared_memory(4 * PAGE, false);
	struct vecadd_args *k = shared_memory(PAGE, false);
	HsaEvent *e = event(HSA_EVENTTYPE_SIGNAL, false);
	HsaQueueResource q;
	struct aql_barrier b = {.header = AQL_HEADER(AQL_BARRIER_AND)};
	struct aql_dispatch d = {
		.header = AQL_HEADER(AQL_DISPATCH),
		.setup = 1,
		.group = {256, 1, 1},
		.grid = {N, 1, 1}, /* not a multiple of the group */
		.kernel = (uint64_t)(uintptr_t)code + descriptor,
		.kernarg = (uint64_t)(uintptr_t)k,
		.signal = (uint64_t)(uintptr_t)&p->done,
	};

	aql_queue(p, ring, PAGE / 64, &q);
	must(hsaKmtCreateQueue(GPU, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring,
			       PAGE, no_event, &q));
	p->doorbell.value = (int64_t)q.QueueDoorBell;
	/* Held back by a dependency; done when the host says so; the signal has an event. */
	vecadd_fill(k, data);
	p->done.value = 1;
	p->done.mailbox = e->EventData.HWData2;
	p->done.event_id = e->EventId;
	p->dep.value = 1;
	b.dep[0] = (uint64_t)(uintptr_t)&p->dep;
	aql_submit(p, &q, &b);
	aql_submit(p, &q, &d);
	usleep(20000);
	check(p->done.value == 1 && k->c[0] == -1, "the barrier did not hold");
	__atomic_store_n(&p->dep.value, 0, __ATOMIC_RELEASE);
	ok(hsaKmtWaitOnEvent(e, 10000));
	check(p->done.value == 0, "the event came before its signal: %lld",
	      (long long)p->done.value);
	vecadd_check(k, "AQL dispatch");
	check(*(volatile uint64_t *)(uintptr_t)p->done.mailbox == e->EventId ||
		      *(volatile uint64_t *)(uintptr_t)p->done.mailbox == UINT64_MAX,
	      "the event's slot holds something else");

	/* Round the ring without an event: polling alone. */
	p->done.mailbox = 0;
	for (unsigned i = 0; i < 200; i++) {
		k->c[N - 1] = -1;
		p->done.value = 1;
		aql_submit(p, &q, &d);
		if (!check(wait64(&p->done.value, 0) && k->c[N - 1] == (float)(4 * N - 3),
			   "dispatch %u never came", i))
			break;
	}
	check(p->queue.read_id == 202 && p->queue.write_id == 202, "read %llu, written %llu of 202",
	      (unsigned long long)p->queue.read_id, (unsigned long long)p->queue.write_id);
	check(p->inactive.value == 0, "the queue complains: %llx",
	      (unsigned long long)p->inactive.value);
	ok(hsaKmtDestroyQueue(q.QueueId));
	release(ring, PAGE);
	release(data, 4 * PAGE);
	release(k, PAGE);
	release(p, PAGE);
	ok(hsaKmtDestroyEvent(e));
}

/* ---- a fault, last: it takes the process's queues with it ---- */

static void fault(void)
{
	struct ring r;
	HsaQueueResource q = {0};
	HsaEvent *e = event(HSA_EVENTTYPE_MEMORY, false);
	char *hole = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const HsaMemoryAccessFault *f = &e->EventData.EventData.MemoryAccessFault;

	need(hole != MAP_FAILED, "mmap");
	ring_init(&r, shared_memory(PAGE, false), PAGE, true);
	must(hsaKmtCreateQueue(GPU, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, r.base, r.bytes,
			       no_event, &q));
	ring_attach(&r, q.Queue_DoorBell_aql, q.Queue_write_ptr_aql);
	sdma_fill(&r, hole, 1, PAGE);
	ring_go(&r);
	ok(hsaKmtWaitOnEvent(e, 10000));
	check(f->VirtualAddress == (uint64_t)(uintptr_t)hole, "fault at %llx, wanted %p",
	      (unsigned long long)f->VirtualAddress, (void *)hole);
	check(f->NodeId == GPU && f->Failure.NotPresent && !f->Failure.NoExecute,
	      "fault: node %u, not present %u, no execute %u", f->NodeId, f->Failure.NotPresent,
	      f->Failure.NoExecute);
	check(!*(int *)hole, "the page was written all the same");
	ok(hsaKmtDestroyQueue(q.QueueId));
	release(r.base, r.bytes);
	ok(hsaKmtDestroyEvent(e));
	munmap(hole, PAGE);
}

/* ---- */

static void small_calls(void)
{
	HSAuint32 tile[32], macro[16];
	HsaGpuTileConfig c = {.TileConfig = tile,
			      .MacroTileConfig = macro,
			      .NumTileConfigs = 32,
			      .NumMacroTileConfigs = 16};
	void *handler = shared_memory(PAGE, false);

	ok(hsaKmtGetTileConfig(GPU, &c));
	ok(hsaKmtSetTrapHandler(GPU, handler, PAGE, NULL, 0));
	ok(hsaKmtSetTrapHandler(GPU, NULL, 0, NULL, 0));
	/* The library set the policy itself when it took the GPU's VM. */
	fails(HSAKMT_STATUS_NOT_IMPLEMENTED,
	      hsaKmtSetMemoryPolicy(GPU, HSA_CACHING_NONCACHED, HSA_CACHING_CACHED, NULL, 0));
	release(handler, PAGE);
}

/* A kernel of 2026 refuses this library's queues: it counts too few registers into the save area
 * (EINVAL), and its write pointers lie in user memory, which cannot be pinned (EPERM). */
static void queues_refused(void)
{
	struct queue_page *p = shared_memory(PAGE, true);
	char *ring = shared_memory(PAGE, false);
	HsaQueueResource q = {0};

	fails(HSAKMT_STATUS_ERROR,
	      hsaKmtCreateQueue(GPU, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE,
				no_event, &q));
	fails(HSAKMT_STATUS_ERROR,
	      hsaKmtCreateQueue(GPU, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE,
				no_event, &q));
	aql_queue(p, ring, PAGE / 64, &q);
	fails(HSAKMT_STATUS_ERROR,
	      hsaKmtCreateQueue(GPU, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring,
				PAGE, no_event, &q));
	release(ring, PAGE);
	release(p, PAGE);
}

/* Whether they are accepted is the trace's business. */
static void queues_asked_for(void)
{
	static const HSA_QUEUE_TYPE types[] = {HSA_QUEUE_COMPUTE_AQL, HSA_QUEUE_COMPUTE,
					       HSA_QUEUE_SDMA};
	HsaSystemProperties sys;

	must(hsaKmtAcquireSystemProperties(&sys));
	for (unsigned i = 0; i < 3; i++) {
		struct queue_page *p = shared_memory(PAGE, true);
		char *ring = shared_memory(16 * PAGE, false);
		HsaQueueResource q = {0};

		if (types[i] == HSA_QUEUE_COMPUTE_AQL)
			aql_queue(p, ring, 16 * PAGE / 64, &q);
		if (hsaKmtCreateQueue(GPU, types[i], 100, HSA_QUEUE_PRIORITY_NORMAL, ring,
				      16 * PAGE, no_event, &q) == HSAKMT_STATUS_SUCCESS)
			ok(hsaKmtDestroyQueue(q.QueueId));
		release(ring, 16 * PAGE);
		release(p, PAGE);
	}
}

int main(int argc, char **argv)
{
	bool full = argc == 3 && !strcmp(argv[1], "full");
	bool queues = argc == 2 && !strcmp(argv[1], "queues");

	if (!full && !queues && (argc != 2 || strcmp(argv[1], "refused"))) {
		fprintf(stderr, "usage: hsakmt_client refused | full VECADD.co | queues\n");
		return 2;
	}
	must(hsaKmtOpenKFD());
	if (queues) {
		queues_asked_for();
		ok(hsaKmtReleaseSystemProperties());
		ok(hsaKmtCloseKFD());
		client_end();
	}
	topology();
	allocate_every_kind();
	events();
	small_calls();
	if (full) {
		load_code(argv[2]);
		sdma();
		pm4();
		aql();
		fault();
		release(code, code_size);
	} else {
		queues_refused();
	}
	free_every_kind();
	ok(hsaKmtReleaseSystemProperties());
	ok(hsaKmtCloseKFD());
	fails(HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED, hsaKmtCloseKFD());
	client_end();
}
