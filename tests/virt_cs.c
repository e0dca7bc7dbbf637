/* Submission by libdrm_amdgpu: contexts, buffer lists, jobs on compute and SDMA rings, fences and waiting,
 * and what is refused. Jobs that do not end: virt_cs_hang.c.
 */
#include "cs_child.h"

/* ---- what runs --------------------------------------------------------------- */

IN_CHILD(rings_reported, "")
{
	static const struct {
		unsigned ip, rings;
	} want[] = {{AMDGPU_HW_IP_GFX, 0}, {AMDGPU_HW_IP_COMPUTE, 0xf}, {AMDGPU_HW_IP_DMA, 1},
		    {AMDGPU_HW_IP_UVD, 0}, {AMDGPU_HW_IP_VCN_DEC, 0},   {AMDGPU_HW_IP_VCN_JPEG, 0}};

	client_open();
	at = 0;
	put_write(data.va, 1);
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct drm_amdgpu_info_hw_ip ip;

		OK(amdgpu_query_hw_ip_info(dev, want[i].ip, 0, &ip));
		TRUE(ip.available_rings == want[i].rings);
		if (!want[i].rings) {
			/* It has an entity, so it can be waited for; there is nothing to run on. */
			GIVES(-EINVAL, SUBMIT(.ip = want[i].ip));
			last.fence = 0;
			TRUE(over(&last, NO_TIME) == 1);
		}
	}
	for (unsigned ring = 0; ring < 4; ring++) {
		OK(SUBMIT(COMPUTE, .ring = ring));
		TRUE(over(&last, MINUTE) == 1);
	}
	GIVES(-EINVAL, SUBMIT(COMPUTE, .ring = 4));
	client_close();
}

IN_CHILD(pm4_writes_and_dispatches, "")
{
	uint64_t entry, args;

	client_open();
	entry = KERNEL(K_COUNT);
	args = data.va + 0x800;
	data.p[0x800 / 4] = (uint32_t)(data.va + 0x100);
	data.p[0x804 / 4] = (uint32_t)((data.va + 0x100) >> 32);
	at = 0;
	put_write(data.va, 0xcafe);
	for (unsigned i = 0; i < 40; i++) /* more than are in flight at once */
		put_dispatch(entry, args);
	while (at % 8)
		put(0xffff1000);
	for (unsigned n = 1; n <= 3; n++) {
		struct buf uf = buf_new(4096);

		uf.p[2] = uf.p[3] = ~0u;
		OK(SUBMIT(COMPUTE, .uf = uf.bo, .uf_offset = 1));
		TRUE(last.fence == n);
		TRUE(over(&last, MINUTE) == 1);
		TRUE(data.p[0] == 0xcafe);
		TRUE(data.p[0x40] == 40 * 32 * n);
		/* The number of the submission, 64 bits of it. */
		TRUE(uf.p[2] == n && uf.p[3] == 0);
		buf_free(&uf);
	}
	client_close();
}

/* How long jobs ran, by fdinfo. */
static uint64_t engine_ns(const char *engine)
{
	char path[64], text[4096] = "", key[64];
	const char *at_key;
	int f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(key, sizeof(key), "drm-engine-%s:\t", engine);
	f = open(path, O_RDONLY);
	TRUE(f >= 0 && read(f, text, sizeof(text) - 1) > 0);
	close(f);
	at_key = strstr(text, key);
	return at_key ? strtoull(at_key + strlen(key), NULL, 10) : 0;
}

IN_CHILD(sdma_copies, "")
{
	client_open();
	for (uint32_t i = 0; i < 0x4000; i++)
		data.p[i] = i * 3;
	at = 0;
	put_copy(data.va + 0x40000, data.va, 0x10000);
	put(11 | 2u << 30); /* fill with dwords */
	put64(data.va + 0x80000);
	put(0x12345678);
	put(0xffff);
	put(2); /* write */
	put64(data.va + 0xa0000);
	put(1);
	put(7);
	put(8);
	put(0);
	OK(SUBMIT(SDMA));
	TRUE(over(&last, MINUTE) == 1);
	TRUE(!memcmp((void *)(data.p + 0x10000), (void *)data.p, 0x10000));
	TRUE(data.p[0x20000] == 0x12345678 && data.p[0x23fff] == 0x12345678 && !data.p[0x24000]);
	TRUE(data.p[0x28000] == 7 && data.p[0x28001] == 8);
	/* The second entity is of the same ring. */
	data.p[0] = 99;
	OK(SUBMIT(SDMA, .ring = 1));
	TRUE(last.fence == 1 && over(&last, MINUTE) == 1);
	TRUE(data.p[0x10000] == 99);
	GIVES(-EINVAL, SUBMIT(SDMA, .ring = 2));
	TRUE(engine_ns("dma") > 0 && engine_ns("compute") == 0);
	client_close();
}

IN_CHILD(several_buffers_in_one_submission, "")
{
	struct amdgpu_cs_ib_info info[3];
	struct amdgpu_cs_request r = {
		.ip_type = AMDGPU_HW_IP_COMPUTE, .number_of_ibs = 3, .ibs = info};

	client_open();
	memset(info, 0, sizeof(info));
	at = 0;
	for (uint32_t i = 0; i < 3; i++) {
		info[i].ib_mc_address = ib.va + at * 4ull;
		put_write(data.va + 4 * i, i + 1);
		put_write(data.va + 0x40, i);
		info[i].size = 10;
	}
	OK(amdgpu_cs_submit(ctx, 0, &r, 1));
	last = (struct amdgpu_cs_fence){
		.context = ctx, .ip_type = AMDGPU_HW_IP_COMPUTE, .fence = r.seq_no};
	TRUE(over(&last, MINUTE) == 1);
	TRUE(data.p[0] == 1 && data.p[1] == 2 && data.p[2] == 3 && data.p[16] == 2);
	client_close();
}

/* One context's job waits for memory; another's, on another ring, for that job. */
IN_CHILD(dependencies, "")
{
	amdgpu_context_handle other;
	struct amdgpu_cs_fence first, second;
	uint32_t begin;

	client_open();
	OK(amdgpu_cs_ctx_create(dev, &other));
	at = 0;
	put_wait(data.va, 1);
	put_write(data.va + 0x10, 5);
	OK(SUBMIT(COMPUTE));
	first = last;
	begin = at;
	put_copy(data.va + 0x20, data.va + 0x10, 4);
	OK(SUBMIT(SDMA, .ctx = other, .from = begin, .deps = &first, .n_deps = 1));
	second = last;
	TRUE(over(&first, NO_TIME) == 0);
	TRUE(over(&second, 20000000) == 0);
	TRUE(!data.p[8]);
	__atomic_store_n(&data.p[0], 1, __ATOMIC_RELEASE);
	TRUE(over(&second, MINUTE) == 1);
	TRUE(over(&first, NO_TIME) == 1);
	TRUE(data.p[8] == 5);
	/* Not given out yet, of no context, of no ring. */
	first.fence = 9;
	GIVES(-EINVAL, SUBMIT(COMPUTE, .deps = &first, .n_deps = 1));
	first.fence = 1;
	first.ring = 4;
	GIVES(-EINVAL, SUBMIT(COMPUTE, .deps = &first, .n_deps = 1));
	OK(amdgpu_cs_ctx_free(other));
	client_close();
}

/* ---- waiting ----------------------------------------------------------------- */

static void *store_later(void *word)
{
	struct timespec ts = {0, 20000000};

	nanosleep(&ts, NULL);
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
	return NULL;
}

IN_CHILD(waiting, "")
{
	struct amdgpu_cs_fence f[3];
	uint32_t status, first, begin[3];
	uint64_t start;
	pthread_t t;

	client_open();
	at = 0;
	for (unsigned i = 0; i < 3; i++) {
		begin[i] = at;
		put_wait(data.va + 4 * i, 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		OK(SUBMIT(COMPUTE, .ring = i, .from = begin[i], .dwords = 7));
		f[i] = last;
	}
	start = now_ns();
	OK(amdgpu_cs_wait_fences(f, 3, true, 30000000, &status, &first));
	TRUE(status == 0);
	OK(amdgpu_cs_wait_fences(f, 3, false, 30000000, &status, &first));
	TRUE(status == 0 && first == ~0u);
	TRUE(now_ns() - start >= 50000000); /* whole jiffies, rounded down */
	data.p[1] = 1;
	OK(amdgpu_cs_wait_fences(f, 3, false, MINUTE, &status, &first));
	TRUE(status == 1 && first == 1);
	OK(amdgpu_cs_wait_fences(f, 3, true, NO_TIME, &status, &first));
	TRUE(status == 0);
	/* Somebody else makes it true while we sleep, without a limit. */
	data.p[0] = 1;
	pthread_create(&t, NULL, store_later, (void *)&data.p[2]);
	OK(amdgpu_cs_wait_fences(f, 3, true, AMDGPU_TIMEOUT_INFINITE, &status, &first));
	TRUE(status == 1);
	pthread_join(t, NULL);
	/* The last of a ring; before the first; none yet; no such. */
	f[0].fence = ~0ull;
	TRUE(over(&f[0], NO_TIME) == 1);
	f[0].fence = 0;
	TRUE(over(&f[0], NO_TIME) == 1);
	f[0].fence = 2;
	TRUE(over(&f[0], NO_TIME) == -EINVAL);
	f[0].fence = 1;
	f[0].ip_instance = 1;
	TRUE(over(&f[0], NO_TIME) == -EINVAL);
	f[0].ip_instance = 0;
	f[0].ip_type = 10;
	TRUE(over(&f[0], NO_TIME) == -EINVAL);
	client_close();
}

/* A number is known for 32 submissions, and more than that do not get under way. */
IN_CHILD(numbers, "")
{
	struct amdgpu_cs_fence f;
	pthread_t t;

	client_open();
	at = 0;
	put_wait(data.va, 1);
	for (unsigned i = 0; i < 32; i++)
		OK(SUBMIT(COMPUTE));
	f = last;
	f.fence = 1;
	TRUE(over(&f, NO_TIME) == 0);
	pthread_create(&t, NULL, store_later, (void *)&data.p[0]);
	OK(SUBMIT(COMPUTE)); /* sleeps until the first is over */
	TRUE(last.fence == 33);
	TRUE(over(&f, NO_TIME) == 1);
	TRUE(over(&last, MINUTE) == 1);
	pthread_join(t, NULL);
	client_close();
}

IN_CHILD(buffers_are_busy, "")
{
	amdgpu_bo_list_handle list;
	bool busy = false;

	client_open();
	OK(amdgpu_bo_list_create(dev, 1, &data.bo, NULL, &list));
	at = 0;
	put_wait(data.va, 1);
	OK(SUBMIT(COMPUTE, .list = list));
	OK(amdgpu_bo_wait_for_idle(data.bo, 10000000, &busy));
	TRUE(busy);
	OK(amdgpu_bo_wait_for_idle(code.bo, 10000000, &busy)); /* not in the list */
	TRUE(!busy);
	data.p[0] = 1;
	OK(amdgpu_bo_wait_for_idle(data.bo, MINUTE, &busy));
	TRUE(!busy);
	OK(amdgpu_bo_list_destroy(list));
	client_close();
}

/* ---- contexts ---------------------------------------------------------------- */

static int ctx_call(unsigned op, unsigned id, unsigned flags, int priority,
		    union drm_amdgpu_ctx *out)
{
	union drm_amdgpu_ctx a = {
		.in = {.op = op, .flags = flags, .ctx_id = id, .priority = priority}};
	int r = result_of(ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &a));

	if (out)
		*out = a;
	return r;
}

IN_CHILD(contexts, "")
{
	enum { MANY = 4095 };
	union drm_amdgpu_ctx a;
	amdgpu_context_handle c;
	uint32_t state, hangs, one;
	uint64_t flags;

	client_open();
	/* Priorities that are none are the normal one; above it needs CAP_SYS_NICE, which root has. */
	OK(ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, 77, &a));
	one = a.out.alloc.ctx_id;
	TRUE(one == 2);
	OK(amdgpu_cs_ctx_create2(dev, AMDGPU_CTX_PRIORITY_LOW, &c));
	OK(amdgpu_cs_query_reset_state(c, &state, &hangs));
	TRUE(state == AMDGPU_CTX_NO_RESET && !hangs);
	OK(amdgpu_cs_query_reset_state2(c, &flags));
	TRUE(flags == 0);
	OK(amdgpu_cs_ctx_free(c));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 1, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_FREE_CTX, one, 1, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_FREE_CTX, 99, 0, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_QUERY_STATE, 99, 0, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_QUERY_STATE, one, 1, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_QUERY_STATE2, 0, 0, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_QUERY_STATE2, one, 1, 0, NULL));
	GIVES(-EINVAL, ctx_call(0, one, 0, 0, NULL));
	GIVES(-EINVAL, ctx_call(7, one, 0, 0, NULL));
	/* The clocks are one context's until it ends. */
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_GET_STABLE_PSTATE, one, 1, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_GET_STABLE_PSTATE, 99, 0, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_SET_STABLE_PSTATE, one, 5, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_SET_STABLE_PSTATE, one, 16, 0, NULL));
	GIVES(-EINVAL, ctx_call(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 99, 1, 0, NULL));
	OK(ctx_call(AMDGPU_CTX_OP_SET_STABLE_PSTATE, one, AMDGPU_CTX_STABLE_PSTATE_PEAK, 0, NULL));
	GIVES(-EBUSY, ctx_call(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 1, 0, 0, NULL));
	OK(ctx_call(AMDGPU_CTX_OP_GET_STABLE_PSTATE, 1, 0, 0, &a));
	TRUE(a.out.pstate.flags == AMDGPU_CTX_STABLE_PSTATE_PEAK);
	OK(ctx_call(AMDGPU_CTX_OP_FREE_CTX, one, 0, 0, NULL));
	OK(ctx_call(AMDGPU_CTX_OP_GET_STABLE_PSTATE, 1, 0, 0, &a));
	TRUE(a.out.pstate.flags == AMDGPU_CTX_STABLE_PSTATE_NONE);
	/* 4095 of them, ours included. */
	for (unsigned i = 1; i < MANY; i++)
		OK(ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, 0, NULL));
	GIVES(-ENOSPC, ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, 0, NULL));
	for (unsigned i = 2; i <= MANY; i++)
		OK(ctx_call(AMDGPU_CTX_OP_FREE_CTX, i, 0, 0, NULL));
	client_close();
}

IN_CHILD(priority_needs_a_privilege, "")
{
	union drm_amdgpu_ctx a;

	if (seteuid(65534))
		return;
	client_open();
	GIVES(-EACCES, ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, AMDGPU_CTX_PRIORITY_HIGH, &a));
	TRUE(a.out.alloc.ctx_id == 0);
	GIVES(-EACCES, ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, AMDGPU_CTX_PRIORITY_VERY_HIGH, &a));
	OK(ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, AMDGPU_CTX_PRIORITY_VERY_LOW, &a));
	TRUE(a.out.alloc.ctx_id == 2);
	OK(ctx_call(AMDGPU_CTX_OP_FREE_CTX, 2, 0, 0, NULL));
	TRUE(!seteuid(0));
	OK(ctx_call(AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, AMDGPU_CTX_PRIORITY_HIGH, &a));
	OK(ctx_call(AMDGPU_CTX_OP_FREE_CTX, 2, 0, 0, NULL));
	client_close();
}

IN_CHILD(vm_and_sched, "")
{
	union drm_amdgpu_sched s = {
		.in = {.op = AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE, .ctx_id = 1}};
	union drm_amdgpu_vm v = {.in = {.op = AMDGPU_VM_OP_RESERVE_VMID}};

	client_open();
	OK(ioctl(fd, DRM_IOCTL_AMDGPU_VM, &v));
	v.in.op = AMDGPU_VM_OP_UNRESERVE_VMID;
	OK(ioctl(fd, DRM_IOCTL_AMDGPU_VM, &v));
	v.in.op = 3;
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_AMDGPU_VM, &v));
	v.in = (struct drm_amdgpu_vm_in){.op = AMDGPU_VM_OP_RESERVE_VMID, .flags = 1};
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_AMDGPU_VM, &v));
	s.in.fd = (uint32_t)fd;
	GIVES(-EACCES, ioctl(fd, DRM_IOCTL_AMDGPU_SCHED, &s));
	client_close();
}

/* ---- lists ------------------------------------------------------------------- */

static int list_call(unsigned op, uint32_t *handle, unsigned n, unsigned size, const void *entries)
{
	union drm_amdgpu_bo_list a = {.in = {.operation = op,
					     .list_handle = *handle,
					     .bo_number = n,
					     .bo_info_size = size,
					     .bo_info_ptr = (uintptr_t)entries}};
	int r = result_of(ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &a));

	*handle = a.out.list_handle;
	return r;
}

IN_CHILD(lists, "")
{
	struct drm_amdgpu_bo_list_entry e[2], none = {.bo_handle = 999};
	struct {
		struct drm_amdgpu_bo_list_entry e;
		uint64_t more;
	} wide[2];
	uint32_t h = 0, first, short_one[2];

	client_open();
	for (unsigned i = 0; i < 2; i++) {
		short_one[i] = i ? code.handle : data.handle;
		wide[i].e.bo_handle = e[i].bo_handle = short_one[i];
		wide[i].e.bo_priority = e[i].bo_priority = 40;
	}
	OK(list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 2, sizeof(e[0]), e));
	first = h;
	TRUE(first == 1);
	h = 0;
	OK(list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 2, sizeof(wide[0]), wide));
	TRUE(h == 2);
	OK(list_call(AMDGPU_BO_LIST_OP_UPDATE, &h, 2, 4, short_one));
	TRUE(h == 2);
	OK(list_call(AMDGPU_BO_LIST_OP_DESTROY, &h, 0, sizeof(e[0]), NULL));
	TRUE(h == 0);
	h = 2;
	OK(list_call(AMDGPU_BO_LIST_OP_DESTROY, &h, 0, sizeof(e[0]), NULL)); /* gone already */
	h = 2;
	GIVES(-ENOENT, list_call(AMDGPU_BO_LIST_OP_UPDATE, &h, 1, sizeof(e[0]), e));
	h = 0;
	GIVES(-ENOENT, list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 1, sizeof(none), &none));
	GIVES(-EFAULT, list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 1, sizeof(e[0]), (void *)8));
	GIVES(-EFAULT, list_call(AMDGPU_BO_LIST_OP_DESTROY, &h, 1, 4, (void *)8));
	GIVES(-EINVAL, list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 128 * 1024 + 1, 8, e));
	GIVES(-EINVAL, list_call(3, &h, 1, sizeof(e[0]), e));
	OK(list_call(AMDGPU_BO_LIST_OP_CREATE, &h, 0, sizeof(e[0]), NULL));
	TRUE(h == 2);
	/* Both are left to the file. */
	client_close();
}

/* ---- what a submission may say ------------------------------------------------ */

static uint64_t chunk_at[130];
static struct drm_amdgpu_cs_chunk chunk[130];
static unsigned n_chunks;

static void add(unsigned id, const void *p, size_t bytes)
{
	chunk[n_chunks] = (struct drm_amdgpu_cs_chunk){
		.chunk_id = id, .length_dw = (uint32_t)(bytes / 4), .chunk_data = (uintptr_t)p};
	chunk_at[n_chunks] = (uintptr_t)&chunk[n_chunks];
	n_chunks++;
}

static int cs(unsigned id, unsigned list, uint64_t *seq)
{
	union drm_amdgpu_cs a = {.in = {.ctx_id = id,
					.bo_list_handle = list,
					.num_chunks = n_chunks,
					.chunks = (uintptr_t)chunk_at}};
	int r = result_of(ioctl(fd, DRM_IOCTL_AMDGPU_CS, &a));

	n_chunks = 0;
	if (seq)
		*seq = a.out.handle;
	return r;
}

IN_CHILD(chunks, "")
{
	struct drm_amdgpu_cs_chunk_ib buffer, bad;
	struct drm_amdgpu_cs_chunk_fence fence;
	struct drm_amdgpu_cs_chunk_dep dep = {.ip_type = AMDGPU_HW_IP_COMPUTE, .ctx_id = 1};
	struct drm_amdgpu_bo_list_entry entry, no_entry = {.bo_handle = 999};
	struct drm_amdgpu_bo_list_in list, no_list;
	uint64_t shadow[4] = {0}, seq;
	uint32_t handle = 0;

	client_open();
	at = 0;
	put_write(data.va, 3);
	buffer = (struct drm_amdgpu_cs_chunk_ib){
		.va_start = ib.va, .ib_bytes = at * 4, .ip_type = AMDGPU_HW_IP_COMPUTE};
	fence = (struct drm_amdgpu_cs_chunk_fence){.handle = code.handle};
	entry = (struct drm_amdgpu_bo_list_entry){.bo_handle = data.handle};
	list = (struct drm_amdgpu_bo_list_in){
		.bo_number = 1, .bo_info_size = sizeof(entry), .bo_info_ptr = (uintptr_t)&entry};
	no_list = list;
	no_list.bo_info_ptr = (uintptr_t)&no_entry;

	GIVES(-EINVAL, cs(1, 0, NULL)); /* none */
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	GIVES(-EINVAL, cs(9, 0, NULL)); /* no such context */
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	chunk_at[0] = 8;
	GIVES(-EFAULT, cs(1, 0, NULL));
	add(AMDGPU_CHUNK_ID_IB, (void *)8, sizeof(buffer));
	GIVES(-EFAULT, cs(1, 0, NULL));
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer) - 4);
	GIVES(-EINVAL, cs(1, 0, NULL));
	add(0x7f, &buffer, sizeof(buffer));
	GIVES(-EINVAL, cs(1, 0, NULL));
	add(AMDGPU_CHUNK_ID_IB, &buffer, 0);
	chunk[0].length_dw = 0x30000000;
	GIVES(-ENOMEM, cs(1, 0, NULL));
	add(AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	GIVES(-EINVAL, cs(1, 0, NULL)); /* nothing to run */
	for (unsigned i = 0; i < 126; i++)
		add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	GIVES(-EINVAL, cs(1, 0, NULL)); /* one more than a ring takes at once */
	bad = buffer;
	bad.ib_bytes = 0x400000;
	add(AMDGPU_CHUNK_ID_IB, &bad, sizeof(bad));
	GIVES(-EINVAL, cs(1, 0, NULL));
	bad = buffer;
	bad.ip_type = 10;
	add(AMDGPU_CHUNK_ID_IB, &bad, sizeof(bad));
	GIVES(-EINVAL, cs(1, 0, NULL));
	bad = buffer;
	bad.ip_instance = 1;
	add(AMDGPU_CHUNK_ID_IB, &bad, sizeof(bad));
	GIVES(-EINVAL, cs(1, 0, NULL));

	/* The fence: one, in a buffer of one page. */
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	add(AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	GIVES(-EINVAL, cs(1, 0, NULL));
	fence.offset = 4092;
	add(AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	GIVES(-EINVAL, cs(1, 0, NULL));
	fence = (struct drm_amdgpu_cs_chunk_fence){.handle = data.handle};
	add(AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	GIVES(-EINVAL, cs(1, 0, NULL));
	fence.handle = 999;
	add(AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	GIVES(-EINVAL, cs(1, 0, NULL));

	/* Lists: by handle or as a chunk, not both. */
	add(AMDGPU_CHUNK_ID_BO_HANDLES, &no_list, sizeof(no_list));
	GIVES(-ENOENT, cs(1, 0, NULL));
	add(AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	add(AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	GIVES(-EINVAL, cs(1, 0, NULL));
	OK(list_call(AMDGPU_BO_LIST_OP_CREATE, &handle, 1, sizeof(entry), &entry));
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	GIVES(-EINVAL, cs(1, handle, NULL));
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	GIVES(-ENOENT, cs(1, 99, NULL));
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	OK(cs(1, handle, &seq));
	TRUE(seq == 1);
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	OK(cs(1, 0, &seq));
	TRUE(seq == 2);

	/* Dependencies. */
	dep.handle = 3;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	GIVES(-EINVAL, cs(1, 0, NULL));
	dep.handle = 2;
	dep.ctx_id = 9;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	GIVES(-EINVAL, cs(1, 0, NULL));
	dep.ctx_id = 1;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, &dep, sizeof(dep));
	OK(cs(1, 0, &seq));

	/* What graphics rings have; a compute ring takes it and leaves it. */
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(0x0a, shadow, sizeof(shadow) - 4);
	GIVES(-EINVAL, cs(1, 0, NULL));
	shadow[3] = 2;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(0x0a, shadow, sizeof(shadow));
	GIVES(-EINVAL, cs(1, 0, NULL));
	shadow[3] = 1;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(0x0a, shadow, sizeof(shadow));
	OK(cs(1, 0, &seq));
	TRUE(seq == 4);

	/* A gang of rings: the last buffer's leads, and has the number. */
	bad = buffer;
	bad.ring = 1;
	add(AMDGPU_CHUNK_ID_IB, &buffer, sizeof(buffer));
	add(AMDGPU_CHUNK_ID_IB, &bad, sizeof(bad));
	OK(cs(1, 0, &seq));
	TRUE(seq == 1);
	last = (struct amdgpu_cs_fence){
		.context = ctx, .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = 1, .fence = 1};
	TRUE(over(&last, MINUTE) == 1);
	for (unsigned i = 0; i < 5; i++) {
		static struct drm_amdgpu_cs_chunk_ib gang[5];

		gang[i] = buffer;
		gang[i].ring = i % 4;
		gang[i].ip_type = i == 4 ? AMDGPU_HW_IP_DMA : AMDGPU_HW_IP_COMPUTE;
		add(AMDGPU_CHUNK_ID_IB, &gang[i], sizeof(gang[i]));
	}
	GIVES(-EINVAL, cs(1, 0, NULL));
	/* Encrypted memory is not compute's: the job ends with that. */
	bad = buffer;
	bad.flags = 1 << 5;
	bad.ring = 2;
	add(AMDGPU_CHUNK_ID_IB, &bad, sizeof(bad));
	OK(cs(1, 0, &seq));
	last = (struct amdgpu_cs_fence){
		.context = ctx, .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = 2, .fence = 1};
	TRUE(over(&last, MINUTE) == -EINVAL);
	OK(list_call(AMDGPU_BO_LIST_OP_DESTROY, &handle, 0, 8, NULL));
	client_close();
}
