/* /sys/class/kfd/kfd/proc/<pid> (kfd_process.c:kfd_create_process_sysfs). */
#include "internal.h"

#include <errno.h>
#include <stdio.h>

bool kfd_process_exists(void)
{
	return kfd_process_current() != NULL;
}

pid_t kfd_process_pid(void)
{
	struct kfd_process *p = kfd_process_current();

	return p ? p->lead : 0;
}

static int queue_attr(struct kfd_process *p, const char *name, char *buf, size_t n)
{
	struct kfd_queue *q;
	unsigned id;
	char attr[16];
	int type;

	if (sscanf(name, "queues/%u/%15s", &id, attr) != 2)
		return -ENOENT;
	q = kfd_queue_by_id(p, id);
	if (!q)
		return -ENOENT;
	/* enum kfd_queue_type: both compute formats are 0. */
	type = !q->sdma ? 0 : 1;
	if (!strcmp(attr, "size"))
		return snprintf(buf, n, "%u", q->ring_size);
	if (!strcmp(attr, "type"))
		return snprintf(buf, n, "%d", type);
	if (!strcmp(attr, "gpuid"))
		return snprintf(buf, n, "%u", vgpu_props.gpu_id);
	return -ENOENT;
}

/* Waves in flight, in CUs of 32 (amdgpu_amdkfd_gfx_v11.c counts them in the machine). */
static unsigned cu_occupancy(struct kfd_process *p)
{
	const struct kfd_queue *q;
	unsigned waves = 0;

	for (unsigned i = 0; (q = kfd_queue_next(p, &i));)
		waves += cp_queue_waves(q->cp);
	return (waves + 31) / 32;
}

static int attr(struct kfd_process *p, const char *name, char *buf, size_t n)
{
	unsigned gpu, id = vgpu_props.gpu_id;
	char tail[32];
	bool borrowed = kfd_lock_borrow(p);
	int r = -ENOENT;

	if (!strcmp(name, "pasid")) {
		r = snprintf(buf, n, "%u\n", vgpu_kernel()->sysfs_pasid ? p->pasid : 0);
	} else if (!strncmp(name, "queues/", 7)) {
		r = queue_attr(p, name, buf, n);
	} else if (!p->n_pdds) {
		r = -ENOENT;
	} else if (sscanf(name, "vram_%u", &gpu) == 1 && gpu == id) {
		r = snprintf(buf, n, "%llu\n", (unsigned long long)p->pdd.vram_usage);
	} else if (sscanf(name, "sdma_%u", &gpu) == 1 && gpu == id) {
		uint64_t sum = p->pdd.sdma_past;
		const struct kfd_queue *q;

		for (unsigned i = 0; (q = kfd_queue_next(p, &i));) {
			if (q->sdma && !q->is_gone)
				sum += kfd_queue_sdma_counter(q);
		}
		r = snprintf(buf, n, "%llu\n", (unsigned long long)(sum / 100));
	} else if (sscanf(name, "stats_%u/%31s", &gpu, tail) == 2 && gpu == id) {
		if (!strcmp(tail, "evicted_ms"))
			r = snprintf(buf, n, "%llu\n", (unsigned long long)p->pdd.evicted_ms);
		else if (!strcmp(tail, "cu_occupancy") && vgpu_kernel()->cu_occupancy)
			r = snprintf(buf, n, "%u\n", cu_occupancy(p));
	} else if (sscanf(name, "counters_%u/%31s", &gpu, tail) == 2 && gpu == id &&
		   vgpu_props.svm) {
		/* Retry faults and migrations do not exist on this part. */
		if (!strcmp(tail, "faults") || !strcmp(tail, "page_in") ||
		    !strcmp(tail, "page_out"))
			r = snprintf(buf, n, "%d\n", 0);
	}
	kfd_lock_return(p, borrowed);
	return r;
}

struct lookup {
	unsigned context;
	const char *name;
	char *buf;
	size_t n;
	int r;
};

static void attr_of(struct kfd_process *p, void *ctx)
{
	struct lookup *l = ctx;

	if (p->context == l->context)
		l->r = attr(p, l->name, l->buf, l->n);
}

int kfd_proc_attr(const char *name, char *buf, size_t n)
{
	struct lookup l = {KFD_CONTEXT_PRIMARY, name, buf, n, -ENOENT};
	int used = 0;

	/* Secondary processes have the same below context_<id>. */
	if (sscanf(name, "context_%u/%n", &l.context, &used) == 1 && used)
		l.name += used;
	kfd_process_each(attr_of, &l);
	return l.r;
}

struct listing {
	void (*fn)(void *ctx, const char *name);
	void *ctx;
	char prefix[32];
};

static void entry(struct listing *l, const char *fmt, unsigned a, const char *b)
{
	char name[96];
	int at = snprintf(name, sizeof(name), "%s", l->prefix);

	/* cppcheck-suppress wrongPrintfScanfArgNum ; names without a number take fewer */
	snprintf(name + at, sizeof(name) - (size_t)at, fmt, a, b);
	l->fn(l->ctx, name);
}

static void list(struct kfd_process *p, void *ctx)
{
	static const char *const fixed[] = {"vram_%u", "sdma_%u", "stats_%u/evicted_ms"};
	static const char *const svm[] = {"counters_%u/faults", "counters_%u/page_in",
					  "counters_%u/page_out"};
	static const char *const queue[] = {"size", "type", "gpuid"};
	struct listing *l = ctx;

	l->prefix[0] = 0;
	if (kfd_is_secondary(p))
		snprintf(l->prefix, sizeof(l->prefix), "context_%u/", p->context);
	entry(l, "pasid", 0, NULL);
	for (unsigned i = 0; p->n_pdds && i < 3; i++)
		entry(l, fixed[i], vgpu_props.gpu_id, NULL);
	for (unsigned i = 0; p->n_pdds && vgpu_props.svm && i < 3; i++)
		entry(l, svm[i], vgpu_props.gpu_id, NULL);
	if (p->n_pdds && vgpu_kernel()->cu_occupancy)
		entry(l, "stats_%u/cu_occupancy", vgpu_props.gpu_id, NULL);
	for (unsigned i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		for (unsigned j = 0; p->queues[i] && j < 3; j++)
			entry(l, "queues/%u/%s", i, queue[j]);
	}
}

/* Names first: fn asks for the attributes, under the same locks. */
struct names {
	char *text;
	size_t used, cap;
};

static void keep(void *ctx, const char *name)
{
	struct names *n = ctx;
	size_t len = strlen(name) + 1;

	if (n->used + len > n->cap) {
		size_t cap = n->cap ? n->cap * 2 : 4096;
		char *text = realloc(n->text, cap);

		if (!text)
			return; /* the file keeps what it had */
		n->text = text;
		n->cap = cap;
	}
	memcpy(n->text + n->used, name, len);
	n->used += len;
}

void kfd_proc_list(void (*fn)(void *ctx, const char *name), void *ctx)
{
	struct names n = {0};
	struct listing l = {.fn = keep, .ctx = &n};

	kfd_process_each(list, &l);
	for (size_t at = 0; at < n.used; at += strlen(n.text + at) + 1)
		fn(ctx, n.text + at);
	free(n.text);
}
