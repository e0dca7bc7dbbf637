/* An HSA program: agents and pools, a queue, code objects, copies by SDMA, fills, dispatches (one
 * with scratch), profiling, a queue error, a memory fault. Every result is checked.
 *
 *   hsa_client LIBHSA VECADD.co SCRATCH.co
 *   hsa_client LIBHSA VECADD.co            the fault alone
 */
#include <errno.h>
#include <time.h>

#include "tests/clients/client.h"
#include "tests/clients/hsa_api.h"

#define SECONDS10 10000000000ull /* system clock: 1 GHz */

#define ok(name, ...)                                                                              \
	do {                                                                                       \
		hsa_status s_ = hsa.name(__VA_ARGS__);                                             \
		check(!s_, "hsa_" #name ": status 0x%x", s_);                                      \
	} while (0)
#define must(name, ...)                                                                            \
	do {                                                                                       \
		hsa_status s_ = hsa.name(__VA_ARGS__);                                             \
		need(!s_, "hsa_" #name ": status 0x%x", s_);                                       \
	} while (0)

static hsa_agent cpu, gpu;
static hsa_pool host_fine, host_kernarg, device;

/* ---- agents and pools ---- */

static hsa_status on_agent(hsa_agent a, void *data)
{
	unsigned *n = data;
	uint32_t type = ~0u;

	ok(agent_get_info, a, HSA_DEVICE, &type);
	if (type == HSA_CPU)
		cpu = a;
	else if (type == HSA_GPU)
		gpu = a;
	n[type == HSA_GPU]++;
	return 0;
}

static hsa_status on_pool(hsa_pool p, void *data)
{
	uint32_t segment = ~0u, flags = 0;

	(void)data;
	ok(amd_memory_pool_get_info, p, HSA_POOL_SEGMENT, &segment);
	if (segment)
		return 0;
	ok(amd_memory_pool_get_info, p, HSA_POOL_FLAGS, &flags);
	if (data == &gpu && flags & HSA_POOL_COARSE)
		device = p;
	else if (data == &cpu && flags & HSA_POOL_KERNARG)
		host_kernarg = p;
	else if (data == &cpu && flags & HSA_POOL_FINE)
		host_fine = p;
	return 0;
}

static uint32_t info(uint32_t what)
{
	uint32_t v = ~0u;

	ok(agent_get_info, gpu, what, &v);
	return v;
}

static void agents(void)
{
	static const struct {
		uint32_t what, value;
		const char *name;
	} wanted[] = {
		{HSA_WAVE, 32, "wave size"},
		{HSA_NODE, 1, "node"},
		{HSA_CHIP, 0x1586, "chip"},
		{HSA_CUS, 40, "CUs"},
		{HSA_WATCHES, 4, "watch points"},
		{HSA_BDF, 0xc500, "bus address"},
		{HSA_WAVES_PER_CU, 32, "waves per CU"},
		{HSA_SIMDS_PER_CU, 2, "SIMDs per CU"},
		{HSA_ENGINES, 2, "shader engines"},
		{HSA_ARRAYS_PER_ENGINE, 2, "arrays per engine"},
	};
	unsigned n[2] = {0};
	char name[64] = "";

	must(iterate_agents, on_agent, n);
	need(n[0] == 1 && n[1] == 1, "%u CPU and %u GPU agents", n[0], n[1]);
	ok(agent_get_info, gpu, HSA_NAME, name);
	check(!strcmp(name, "gfx1151"), "the GPU is called %s", name);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint32_t v = info(wanted[i].what);

		check(v == wanted[i].value, "%s: %u, wanted %u", wanted[i].name, v,
		      wanted[i].value);
	}
	must(amd_agent_iterate_memory_pools, cpu, on_pool, &cpu);
	must(amd_agent_iterate_memory_pools, gpu, on_pool, &gpu);
	need(host_fine.handle && host_kernarg.handle && device.handle, "a memory pool is missing");
}

static void *allocate(hsa_pool pool, size_t bytes)
{
	void *p = NULL;

	must(amd_memory_pool_allocate, pool, bytes, 0, &p);
	must(amd_agents_allow_access, 1, &gpu, NULL, p);
	return p;
}

/* ---- copies ---- */

#define BYTES (3u << 20 | 4096)

static bool done(hsa_signal s)
{
	return hsa.signal_wait_scacquire(s, HSA_LT, 1, SECONDS10, 0) == 0;
}

static void copies(void)
{
	uint32_t *from = allocate(host_fine, BYTES), *back = allocate(host_fine, BYTES);
	uint32_t *there = allocate(device, BYTES), *locked = NULL;
	char *own = malloc(BYTES);
	hsa_signal first, second;

	for (unsigned i = 0; i < BYTES / 4; i++)
		from[i] = i * 2654435761u;
	memset(back, 0, BYTES);
	must(signal_create, 1, 0, NULL, &first);
	must(signal_create, 1, 0, NULL, &second);
	/* The second copy waits for the first. */
	ok(amd_memory_async_copy, back, cpu, there, gpu, BYTES, 1, &first, second);
	usleep(10000);
	check(hsa.signal_load_scacquire(second) == 1 && !back[1], "a copy did not wait");
	ok(amd_memory_async_copy, there, gpu, from, cpu, BYTES, 0, NULL, first);
	check(done(first), "the copy to the device never came");
	check(done(second), "the copy to the host never came");
	check(!memcmp(back, from, BYTES), "what came back is not what went there");

	ok(amd_memory_fill, there, 0x5a5a1234, BYTES / 4);
	hsa.signal_store_screlease(first, 1);
	ok(amd_memory_async_copy, back, cpu, there, gpu, BYTES, 0, NULL, first);
	check(done(first), "the copy of the fill never came");
	check(back[0] == 0x5a5a1234 && back[BYTES / 4 - 1] == 0x5a5a1234, "filled with %x, %x",
	      back[0], back[BYTES / 4 - 1]);

	/* The program's own memory, locked; neither address nor size is aligned. */
	memset(own, 7, BYTES);
	must(amd_memory_lock, own, BYTES, &gpu, 1, (void **)&locked);
	hsa.signal_store_screlease(first, 1);
	ok(amd_memory_async_copy, (char *)there + 5, gpu, (char *)locked + 3, cpu, 70001, 0, NULL,
	   first);
	check(done(first), "the copy from locked memory never came");
	hsa.signal_store_screlease(first, 1);
	ok(amd_memory_async_copy, back, cpu, there, gpu, BYTES, 0, NULL, first);
	check(done(first), "the copy back never came");
	check(((char *)back)[4] == 0x34 && ((char *)back)[5] == 7 && ((char *)back)[70005] == 7 &&
		      ((char *)back)[70006] != 7,
	      "the odd copy is wrong at its edges");
	ok(amd_memory_unlock, own);
	free(own);
	ok(signal_destroy, first);
	ok(signal_destroy, second);
	ok(amd_memory_pool_free, there);
	ok(amd_memory_pool_free, from);
	ok(amd_memory_pool_free, back);
}

/* ---- dispatches ---- */

struct kernel {
	hsa_executable executable;
	uint64_t object;
	uint32_t kernarg, group, private;
};

static void load(const char *path, const char *name, struct kernel *k)
{
	size_t size = 0;
	void *elf = read_file(path, &size);
	hsa_reader reader;
	hsa_symbol symbol;

	need(elf != NULL, "%s: %s", path, strerror(errno));
	must(code_object_reader_create_from_memory, elf, size, &reader);
	must(executable_create_alt, 0, 0, NULL, &k->executable);
	must(executable_load_agent_code_object, k->executable, gpu, reader, NULL, NULL);
	must(executable_freeze, k->executable, NULL);
	must(executable_get_symbol_by_name, k->executable, name, &gpu, &symbol);
	ok(executable_symbol_get_info, symbol, HSA_SYMBOL_KERNEL, &k->object);
	ok(executable_symbol_get_info, symbol, HSA_SYMBOL_KERNARG, &k->kernarg);
	ok(executable_symbol_get_info, symbol, HSA_SYMBOL_GROUP, &k->group);
	ok(executable_symbol_get_info, symbol, HSA_SYMBOL_PRIVATE, &k->private);
	ok(code_object_reader_destroy, reader);
	free(elf);
}

static void submit(struct hsa_queue *q, const struct kernel *k, void *args, uint16_t group,
		   uint32_t grid, hsa_signal signal)
{
	struct aql_dispatch d = {
		.header = AQL_HEADER(AQL_DISPATCH),
		.setup = 1,
		.group = {group, 1, 1},
		.grid = {grid, 1, 1},
		.private_bytes = k->private,
		.group_bytes = k->group,
		.kernel = k->object,
		.kernarg = (uint64_t)(uintptr_t)args,
		.signal = signal.handle,
	};
	uint64_t i = hsa.queue_add_write_index_screlease(q, 1);
	char *slot = (char *)q->base + i % q->size * 64;

	memcpy(slot + 4, (char *)&d + 4, 60);
	__atomic_store_n((uint32_t *)slot, *(uint32_t *)&d, __ATOMIC_RELEASE);
	hsa.signal_store_screlease(q->doorbell, (int64_t)i);
}

static hsa_status queue_error;

static void on_error(hsa_status status, struct hsa_queue *q, void *data)
{
	(void)q;
	(void)data;
	__atomic_store_n(&queue_error, status, __ATOMIC_RELEASE);
}

#define N      1000u
#define GROUPS 100u
#define LANES  64u
#define WORDS  65u /* of scratch per work-item: 260 bytes, no multiple of anything */

/* What scratch.c leaves for work-item i. */
static uint32_t scratch_result(uint32_t i)
{
	uint32_t a[WORDS], sum = 0;

	for (uint32_t k = 0; k < WORDS; k++)
		a[k] = i * 31 + k * k;
	for (uint32_t k = 0; k < WORDS; k++)
		sum = sum * 3 + a[(k * 7 + i) % WORDS];
	return sum;
}

static void dispatches(const char *vecadd_path, const char *scratch_path)
{
	struct {
		const float *a, *b;
		float *c;
		uint32_t n;
	} *v = allocate(host_kernarg, 4096);
	struct {
		uint32_t *out;
	} *w = (void *)((char *)v + 256);
	float *a = allocate(host_fine, N * 4), *b = allocate(host_fine, N * 4);
	float *c = allocate(host_fine, N * 4 + 4);
	uint32_t *out = allocate(host_fine, GROUPS * LANES * 4);
	struct kernel vecadd, scratch;
	struct hsa_times times = {0};
	struct hsa_queue *q = NULL;
	hsa_signal signal;
	unsigned bad = 0;

	load(vecadd_path, "vecadd.kd", &vecadd);
	load(scratch_path, "scratch.kd", &scratch);
	check(vecadd.kernarg == 28 && !vecadd.private,
	      "vecadd wants %u bytes of arguments, %u "
	      "of scratch",
	      vecadd.kernarg, vecadd.private);
	check(scratch.private >= WORDS * 4, "scratch.co uses %u bytes of scratch", scratch.private);
	must(signal_create, 1, 0, NULL, &signal);
	must(queue_create, gpu, 64, 0, on_error, NULL, ~0u, ~0u, &q);
	need(q->size == 64 && q->base, "a queue of %u", q->size);
	ok(amd_profiling_set_profiler_enabled, q, 1);

	for (unsigned i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = (float)(3 * i + 1);
		c[i] = -1;
	}
	c[N] = -1;
	v->a = a;
	v->b = b;
	v->c = c;
	v->n = N;
	submit(q, &vecadd, v, 256, N, signal);
	check(done(signal), "vecadd never came");
	for (unsigned i = 0; i < N; i++)
		bad += c[i] != (float)(4 * i + 1);
	check(!bad && c[N] == -1, "vecadd: %u of %u are wrong", bad, N);
	ok(amd_profiling_get_dispatch_time, gpu, signal, &times);
	check(times.end >= times.start && times.start, "profiled from %llu to %llu",
	      (unsigned long long)times.start, (unsigned long long)times.end);

	/* Scratch is given when a packet asks for it: the runtime answers the queue's request. */
	w->out = out;
	for (unsigned round = 0; round < 3; round++) {
		memset(out, 0, GROUPS * LANES * 4);
		hsa.signal_store_screlease(signal, 1);
		submit(q, &scratch, w, LANES, GROUPS * LANES, signal);
		check(done(signal), "scratch, round %u, never came", round);
		bad = 0;
		for (unsigned i = 0; i < GROUPS * LANES; i++)
			bad += out[i] != scratch_result(i);
		check(!bad, "scratch, round %u: %u of %u are wrong", round, bad, GROUPS * LANES);
	}

	/* Round the ring. */
	for (unsigned i = 0; i < 300; i++) {
		c[N - 1] = -1;
		hsa.signal_store_screlease(signal, 1);
		submit(q, &vecadd, v, 256, N, signal);
		if (!check(done(signal) && c[N - 1] == (float)(4 * N - 3), "dispatch %u", i))
			break;
	}
	check(hsa.queue_load_read_index_scacquire(q) == 304, "read index %llu, wanted 304",
	      (unsigned long long)hsa.queue_load_read_index_scacquire(q));
	check(!queue_error, "the queue complains: 0x%x", queue_error);

	/* Too large a workgroup ends the queue with the runtime's error for it. */
	hsa.signal_store_screlease(signal, 1);
	submit(q, &vecadd, v, 2048, 2048, signal);
	for (unsigned i = 0; i < 5000 && !__atomic_load_n(&queue_error, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	check(queue_error == HSA_INVALID_ARGUMENT, "a workgroup of 2048: status 0x%x", queue_error);
	check(hsa.signal_load_scacquire(signal) == 1, "a refused packet was completed");
	ok(queue_destroy, q);
	ok(executable_destroy, vecadd.executable);
	ok(executable_destroy, scratch.executable);
	ok(signal_destroy, signal);
	ok(amd_memory_pool_free, out);
	ok(amd_memory_pool_free, a);
	ok(amd_memory_pool_free, b);
	ok(amd_memory_pool_free, c);
	ok(amd_memory_pool_free, v);
}

/* ---- a fault ---- */

/* The runtime gives a queue that faulted up only after seconds: the process ends with it. */

static uint64_t fault_address;
static uint32_t fault_type = ~0u;

static hsa_status on_event(const struct hsa_event *e, void *data)
{
	(void)data;
	fault_type = e->type;
	__atomic_store_n(&fault_address, e->address, __ATOMIC_RELEASE);
	return 0;
}

static void fault(const char *vecadd_path)
{
	struct {
		uint64_t a, b, c;
		uint32_t n;
	} *v = allocate(host_kernarg, 4096);
	const uint64_t hole = 0x7000dead000;
	struct kernel vecadd;
	struct hsa_queue *q = NULL;
	hsa_signal signal;

	load(vecadd_path, "vecadd.kd", &vecadd);
	must(signal_create, 1, 0, NULL, &signal);
	must(amd_register_system_event_handler, on_event, NULL);
	must(queue_create, gpu, 64, 0, on_error, NULL, ~0u, ~0u, &q);
	v->a = v->b = v->c = hole;
	v->n = 1;
	submit(q, &vecadd, v, 32, 32, signal);
	for (unsigned i = 0; i < 5000 && !__atomic_load_n(&fault_address, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	check(fault_type == 0 && fault_address == hole,
	      "event %u at 0x%llx, wanted a fault at "
	      "0x%llx",
	      fault_type, (unsigned long long)fault_address, (unsigned long long)hole);
	check(hsa.signal_load_scacquire(signal) == 1, "a faulting dispatch was completed");
}

int main(int argc, char **argv)
{
	const char *missing;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: hsa_client LIBHSA VECADD.co [SCRATCH.co]\n");
		return 2;
	}
	missing = hsa_open(argv[1]);
	need(!missing, "%s: %s", argv[1], missing);
	must(init);
	agents();
	if (argc == 3) {
		fault(argv[2]);
		client_end();
	}
	copies();
	dispatches(argv[2], argv[3]);
	ok(shut_down);
	client_end();
}
