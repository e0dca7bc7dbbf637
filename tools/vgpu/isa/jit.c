/* Which kernels there are, which are hot, and the thread that compiles them. */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "isa/jit_internal.h"
#include "isa/jit_server.h"

/* Interpreted instructions after which a kernel is worth a compile: a compile takes as long as
 * some ten million interpreted ones, so most kernels that get this far earn it back. */
#define HOT     1000000u
#define BUCKETS 256u

struct jit_kernel {
	struct jit_kernel *next; /* in its bucket; never removed before jit_fini() */
	struct vm *vm;
	uint64_t entry;
	struct jit_shape shape;
	uint64_t generation, epoch; /* of vm and of code when cfg was last found to be current */
	struct jit_cfg cfg;
	uint64_t hash[2];
	uint64_t hot; /* interpreted so far; atomic */
	int state;    /* enum state; atomic, release when fn is set */
	bool lockstep;
	jit_fn *fn;
	char why[128];
	struct jit_kernel *queue_next;
};

enum state { COLD, QUEUED, READY, REFUSED };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct jit_kernel *buckets[BUCKETS];
	struct jit_kernel *queue_head, **queue_tail;
	bool running, stop;
	pid_t pid; /* the thread's process: a forked child starts its own */
	pthread_t thread;
	struct jit_stats stats;
	char difference[512];
} J = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.queue_tail = &J.queue_head,
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* FNV-1a, two lanes with different offsets: 128 bits to name a cache file by. */
static void hash_more(uint64_t h[2], const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++) {
		h[0] = (h[0] ^ b[i]) * 0x100000001b3u;
		h[1] = (h[1] ^ b[i] ^ 0x5a) * 0x100000001b3u;
	}
}

/* ---- disk cache ---------------------------------------------------------- */

/* $VGPU_JIT_CACHE, $XDG_CACHE_HOME/barewave, or ~/.cache/barewave; empty: no cache. */
static int cache_path(const struct jit_kernel *k, char *path, size_t n)
{
	const char *dir = getenv("VGPU_JIT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");
	char d[3072];
	int len;

	if (dir)
		len = snprintf(d, sizeof(d), "%s", dir);
	else if (xdg && xdg[0] == '/')
		len = snprintf(d, sizeof(d), "%s/barewave", xdg);
	else if (home && home[0] == '/')
		len = snprintf(d, sizeof(d), "%s/.cache/barewave", home);
	else
		return -ENOENT;
	if (!d[0] || len >= (int)sizeof(d))
		return -ENOENT;
	len = snprintf(path, n, "%s/%016llx%016llx.o", d, (unsigned long long)k->hash[0],
		       (unsigned long long)k->hash[1]);
	return len < (int)n ? 0 : -ENAMETOOLONG;
}

static int cache_read(const struct jit_kernel *k, void **object, size_t *bytes)
{
	char path[4096];
	struct stat st;
	ssize_t r;
	int fd;

	if (cache_path(k, path, sizeof(path)))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size <= 0 || st.st_size > (64 << 20) ||
	    st.st_uid != geteuid()) {
		close(fd);
		return -EINVAL;
	}
	*bytes = (size_t)st.st_size;
	*object = malloc(*bytes);
	r = *object ? read(fd, *object, *bytes) : -1;
	close(fd);
	if (r != (ssize_t)*bytes) {
		free(*object);
		return -EIO;
	}
	return 0;
}

/* ---- compiling ----------------------------------------------------------- */

/* What an object is good for: this code, for waves of this shape, on a processor like this one, made
 * by this compiler. */
static void hash_kernel(struct jit_kernel *k)
{
	uint64_t h[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u}, compiler[4] = {0};
	/* The magic stands for how this device lays out what compiled code reaches. */
	uint32_t shape[5] = {k->shape.nvgpr, k->shape.mode, k->shape.wave64, k->shape.whole,
			     JIT_SERVER_MAGIC};
	static const uint32_t leaves[] = {0, 1, 7, 0xd, 0x80000001u};
	uint32_t cpu[4] = {0};

	for (unsigned i = 0; i < sizeof(leaves) / sizeof(*leaves); i++) {
		__cpuid_count(leaves[i], 0, cpu[0], cpu[1], cpu[2], cpu[3]);
		if (leaves[i] == 1)
			cpu[1] = 0; /* APIC id: differs from core to core */
		hash_more(h, cpu, sizeof(cpu));
	}
	jit_server_identity(compiler);
	hash_more(h, compiler, sizeof(compiler));
	hash_more(h, shape, sizeof(shape));
	hash_more(h, k->cfg.code, k->cfg.bytes);
	memcpy(k->hash, h, sizeof(h));
}

static bool is_kept(struct jit_kernel *k)
{
	char path[4096];

	if (k->cfg.refusal[0])
		return false;
	hash_kernel(k);
	return !cache_path(k, path, sizeof(path)) && !access(path, R_OK);
}

/* On the compiler's thread, or on the caller's in eager mode; without J.lock. */
static int compile(struct jit_kernel *k, jit_fn **fn, bool *cached)
{
	char keep[4096];
	void *object = NULL;
	bool spoiled = false;
	size_t bytes = 0;
	int r;

	*cached = false;
	if (k->cfg.refusal[0]) {
		snprintf(k->why, sizeof(k->why), "%s", k->cfg.refusal);
		return -ENOTSUP;
	}
	hash_kernel(k);
	if (!cache_read(k, &object, &bytes)) {
		r = jit_elf_load(object, bytes, fn, k->why, sizeof(k->why));
		free(object);
		if (!r) {
			*cached = true;
			return 0;
		}
		spoiled = true;
	}
	object = NULL;
	if (cache_path(k, keep, sizeof(keep)))
		keep[0] = 0;
	/* Or the compiler would take it for what somebody else has made meanwhile. */
	if (spoiled)
		unlink(keep);
	r = jit_server_compile(&k->cfg, &k->shape, keep, &object, &bytes, k->why, sizeof(k->why));
	if (!r)
		r = jit_elf_load(object, bytes, fn, k->why, sizeof(k->why));
	free(object);
	return r;
}

static bool same_shape(const struct jit_shape *a, const struct jit_shape *b)
{
	return a->nvgpr == b->nvgpr && a->mode == b->mode && a->wave64 == b->wave64 &&
	       a->whole == b->whole;
}

/* With J.lock held: the same code at another address shares the function. */
static jit_fn *same_code(struct jit_kernel *k)
{
	for (unsigned b = 0; b < BUCKETS; b++)
		for (struct jit_kernel *o = J.buckets[b]; o; o = o->next)
			if (o != k && o->state == READY && same_shape(&o->shape, &k->shape) &&
			    o->cfg.bytes == k->cfg.bytes &&
			    !memcmp(o->cfg.code, k->cfg.code, k->cfg.bytes))
				return o->fn;
	return NULL;
}

static void compile_one(struct jit_kernel *k)
{
	uint64_t t0 = now_ns();
	bool cached = false;
	jit_fn *fn;
	int r = 0;

	pthread_mutex_lock(&J.lock);
	fn = same_code(k);
	pthread_mutex_unlock(&J.lock);
	if (!fn)
		r = compile(k, &fn, &cached);
	pthread_mutex_lock(&J.lock);
	k->fn = r ? NULL : fn;
	J.stats.compiled += !r && !cached;
	J.stats.cached += !r && cached;
	J.stats.refused += !!r;
	J.stats.compile_ns += now_ns() - t0;
	if (getenv("VGPU_JIT_LOG"))
		fprintf(stderr, "jit: 0x%lx %u insns %u blocks: %s %s in %.3f s at 0x%lx\n",
			k->entry, k->cfg.n_insns, k->cfg.n_blocks,
			r        ? "refused"
			: cached ? "cached"
				 : "compiled",
			r ? k->why : "", (double)(now_ns() - t0) * 1e-9, (uintptr_t)k->fn);
	/* Release: pairs with the acquire load in jit_run(). */
	__atomic_store_n(&k->state, r ? REFUSED : READY, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&J.done);
	pthread_mutex_unlock(&J.lock);
}

static void *compiler(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&J.lock);
	while (!J.stop) {
		struct jit_kernel *k = J.queue_head;

		if (!k) {
			pthread_cond_wait(&J.work, &J.lock);
			continue;
		}
		J.queue_head = k->queue_next;
		if (!J.queue_head)
			J.queue_tail = &J.queue_head;
		pthread_mutex_unlock(&J.lock);
		compile_one(k);
		pthread_mutex_lock(&J.lock);
	}
	pthread_mutex_unlock(&J.lock);
	return NULL;
}

/* With J.lock held. */
static void enqueue(struct jit_kernel *k)
{
	sigset_t all, old;

	if (!J.running || J.pid != getpid()) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		J.running = !pthread_create(&J.thread, NULL, compiler, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		J.pid = getpid();
		if (!J.running) {
			snprintf(k->why, sizeof(k->why), "no thread to compile on");
			__atomic_store_n(&k->state, REFUSED, __ATOMIC_RELEASE);
			return;
		}
	}
	__atomic_store_n(&k->state, QUEUED, __ATOMIC_RELAXED);
	k->queue_next = NULL;
	*J.queue_tail = k;
	J.queue_tail = &k->queue_next;
	pthread_cond_signal(&J.work);
}

/* ---- the registry -------------------------------------------------------- */

static int fetch(void *ctx, uint64_t pc, void *dst, size_t n)
{
	return vm_read(ctx, VM_FETCH, gva(pc), dst, n, 0);
}

static bool same_bytes(struct vm_port *p, const struct jit_kernel *k)
{
	uint8_t line[256];

	for (uint32_t o = 0; o < k->cfg.bytes; o += sizeof(line)) {
		size_t n = k->cfg.bytes - o < sizeof(line) ? k->cfg.bytes - o : sizeof(line);

		if (vm_read(p, VM_FETCH, gva(k->entry + o), line, n, 0) ||
		    memcmp(line, k->cfg.code + o, n))
			return false;
	}
	return true;
}

/* A place in the code that may have a kernel, as of now. */
struct place {
	struct vm_port *port;
	uint64_t entry, generation, epoch;
	const struct jit_shape *shape;
};

static bool is_at(const struct jit_kernel *k, const struct place *at)
{
	return k->vm == at->port->vm && k->entry == at->entry && same_shape(&k->shape, at->shape);
}

/* From a bucket's head on, the kernel at a place whose mappings and code have not changed since they
 * were last looked at. With J.lock held. */
static struct jit_kernel *find_current(struct jit_kernel *k, const struct place *at)
{
	for (; k; k = k->next)
		if (is_at(k, at) && k->generation == at->generation && k->epoch == at->epoch)
			return k;
	return NULL;
}

/* The one whose code is still what is there. Without the lock: kernels stay, and so does what these
 * fields of them say. */
static struct jit_kernel *find_same(struct jit_kernel *k, const struct place *at)
{
	for (; k; k = k->next)
		if (is_at(k, at) && same_bytes(at->port, k))
			return k;
	return NULL;
}

/* kept: it has been compiled before, by whomever. Without the lock: reads code and files. */
static struct jit_kernel *kernel_new(const struct place *at, bool *kept)
{
	struct jit_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	if (jit_cfg_build(fetch, at->port, at->entry, &k->cfg)) {
		free(k);
		return NULL;
	}
	k->vm = at->port->vm;
	k->entry = at->entry;
	k->shape = *at->shape;
	*kept = is_kept(k);
	return k;
}

/* As found by another thread meanwhile. With J.lock held; fresh has never been seen by others. */
static struct jit_kernel *find_twin(struct jit_kernel *k, const struct jit_kernel *fresh,
				    const struct place *at)
{
	for (; k; k = k->next)
		if (is_at(k, at) && k->cfg.bytes == fresh->cfg.bytes &&
		    !memcmp(k->cfg.code, fresh->cfg.code, k->cfg.bytes))
			return k;
	return NULL;
}

struct jit_kernel *jit_kernel_get(struct vm_port *p, uint64_t entry, const struct jit_shape *shape,
				  enum jit_mode mode)
{
	struct place at = {.port = p, .entry = entry, .shape = shape};
	struct jit_kernel **bucket, *head, *k, *fresh = NULL;
	bool kept = false;

	if (mode == JIT_OFF)
		return NULL;
	bucket = &J.buckets[(entry >> 8 ^ entry >> 16) % BUCKETS];
	at.generation = vm_generation(p->vm);
	at.epoch = isa_code_epoch();
	pthread_mutex_lock(&J.lock);
	head = *bucket;
	k = find_current(head, &at);
	if (!k) {
		/* Mappings or code may have changed since: is it still the same? Others are not kept
		 * from their kernels by this one's. */
		pthread_mutex_unlock(&J.lock);
		k = find_same(head, &at);
		if (!k)
			fresh = kernel_new(&at, &kept);
		pthread_mutex_lock(&J.lock);
	}
	if (fresh) {
		k = find_twin(*bucket, fresh, &at);
		if (k) {
			jit_cfg_free(&fresh->cfg);
			free(fresh);
			kept = false;
		} else {
			k = fresh;
			k->next = *bucket;
			*bucket = k;
		}
	}
	if (k) {
		k->generation = at.generation;
		k->epoch = at.epoch;
		__atomic_store_n(&k->lockstep, mode == JIT_LOCKSTEP, __ATOMIC_RELAXED);
	}
	/* Compiled before: nothing to wait for. */
	if (k && kept && mode == JIT_ON && k->state == COLD)
		enqueue(k);
	if (k && mode >= JIT_EAGER) {
		if (k->state == COLD)
			enqueue(k);
		while (k->state == QUEUED)
			pthread_cond_wait(&J.done, &J.lock);
	}
	pthread_mutex_unlock(&J.lock);
	return k;
}

static void interpreted(struct jit_kernel *k, uint64_t n)
{
	if (__atomic_add_fetch(&k->hot, n, __ATOMIC_RELAXED) < HOT)
		return;
	pthread_mutex_lock(&J.lock);
	if (k->state == COLD)
		enqueue(k);
	pthread_mutex_unlock(&J.lock);
}

static uint64_t run_lockstep(struct jit_kernel *k, struct isa_exec *x, struct isa_wave *w,
			     uint64_t budget)
{
	uint64_t compiled, done;
	char why[512];

	done = jit_lockstep(k->fn, k->entry, x, w, budget, &compiled, why, sizeof(why));
	x->compiled += compiled;
	if (why[0]) {
		pthread_mutex_lock(&J.lock);
		if (!J.difference[0])
			memcpy(J.difference, why, sizeof(why));
		pthread_mutex_unlock(&J.lock);
	}
	return done;
}

uint64_t jit_run(struct jit_kernel *k, struct isa_exec *x, struct isa_wave *w, uint64_t budget)
{
	uint64_t done = 0, step = 1, n;
	unsigned csr;

	x->w = w;
	x->half = 0;
	if (!k)
		return isa_run(x, w, budget);
	/* Acquire: pairs with the release in compile_one(). */
	if (__atomic_load_n(&k->state, __ATOMIC_ACQUIRE) != READY) {
		n = isa_run(x, w, budget);
		if (__atomic_load_n(&k->state, __ATOMIC_RELAXED) == COLD)
			interpreted(k, n);
		return n;
	}
	csr = _mm_getcsr();
	_mm_setcsr(0x1f80); /* as in isa_run() */
	if (__builtin_expect(__atomic_load_n(&k->lockstep, __ATOMIC_RELAXED), 0)) {
		done = run_lockstep(k, x, w, budget);
		_mm_setcsr(csr);
		return done;
	}
	while (w->state == WAVE_RUN && done < budget) {
		n = w->priv ? 0 : k->fn(x, w, k->entry, budget - done);
		x->compiled += n;
		done += n;
		if (n) {
			step = 1;
		} else if (w->state == WAVE_RUN) {
			/* Not a place compiled code can start from: a trap handler, a callee, the
			 * middle of a block. Interpret until it is one again, asking less and less
			 * often. */
			done += isa_run(x, w, step < budget - done ? step : budget - done);
			step += step < 64 ? step : 0;
		}
	}
	_mm_setcsr(csr);
	return done;
}

bool jit_ready(const struct jit_kernel *k)
{
	return k && __atomic_load_n(&k->state, __ATOMIC_ACQUIRE) == READY;
}

/* False: it takes no more. */
static bool leave_to_compiler(struct jit_kernel *k)
{
	char keep[4096];

	if (k->cfg.refusal[0] || is_kept(k) || cache_path(k, keep, sizeof(keep)))
		return true;
	return !jit_server_leave(&k->cfg, &k->shape, keep);
}

void jit_leave(void)
{
	struct timespec soon;
	struct jit_kernel *k;

	/* An exit handler may have interrupted who holds it. */
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec++;
	if (pthread_mutex_timedlock(&J.lock, &soon))
		return;
	if (J.running && J.pid == getpid()) {
		J.stop = true; /* the thread ends what it is at, if it gets to it */
		for (k = J.queue_head; k && leave_to_compiler(k); k = k->queue_next)
			;
		J.queue_head = NULL;
		J.queue_tail = &J.queue_head;
	}
	pthread_mutex_unlock(&J.lock);
}

void jit_fini(void)
{
	struct jit_kernel *left;
	pthread_t t;
	bool join;

	pthread_mutex_lock(&J.lock);
	J.stop = true;
	left = J.queue_head;
	join = J.running && J.pid == getpid();
	t = J.thread;
	pthread_cond_signal(&J.work);
	pthread_mutex_unlock(&J.lock);
	if (join) {
		jit_server_interrupt();
		pthread_join(t, NULL);
		/* Hot, and not compiled yet: the compiler does it for whoever comes next. */
		for (; left; left = left->queue_next)
			if (!leave_to_compiler(left))
				break;
	}
	jit_server_stop();
	pthread_mutex_lock(&J.lock);
	for (unsigned b = 0; b < BUCKETS; b++)
		for (struct jit_kernel *k = J.buckets[b], *next; k; k = next) {
			next = k->next;
			jit_cfg_free(&k->cfg);
			free(k);
		}
	memset(J.buckets, 0, sizeof(J.buckets));
	J.queue_head = NULL;
	J.queue_tail = &J.queue_head;
	J.running = J.stop = false;
	pthread_mutex_unlock(&J.lock);
}

void jit_stats(struct jit_stats *out)
{
	pthread_mutex_lock(&J.lock);
	*out = J.stats;
	pthread_mutex_unlock(&J.lock);
}

const char *jit_difference(void)
{
	return J.difference;
}

const char *jit_refusal(const struct jit_kernel *k)
{
	return __atomic_load_n(&k->state, __ATOMIC_ACQUIRE) == REFUSED ? k->why : "";
}
