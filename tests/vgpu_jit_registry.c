/* Which kernels there are: one record per code, made side by side; and what of them is compiled when
 * the client is gone. */
#include "isa/jit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "isa_machine.h"

enum { KERNELS = 4, KERNEL_BYTES = 256, THREADS = 8, HOT_RUN = 2000000 };

static char cache[] = "/tmp/barewave-jit-XXXXXX";

/* Kernel i counts down and leaves i behind. */
static void assemble(void)
{
	for (unsigned i = 0; i < KERNELS; i++) {
		M.n = i * KERNEL_BYTES / 4;
		e_sop1(ISA_S_MOV_B32, 0, M_LIT);
		m_put(HOT_RUN);
		e_sop1(ISA_S_MOV_B32, 2, 128 + i);
		e_sop2(ISA_S_SUB_U32, 0, 0, 129);
		e_vop2(ISA_V_ADD_NC_U32, 1, 2, 1);
		e_sopc(ISA_S_CMP_LG_U32, 0, 128);
		e_sopp(ISA_S_CBRANCH_SCC1, -4);
		e_sopp(ISA_S_ENDPGM, 0);
	}
	isa_icache_invalidate();
}

static void setup(void)
{
	cr_assert(mkdtemp(cache));
	setenv("VGPU_JIT_CACHE", cache, 1);
	m_init(false);
	assemble();
}

static unsigned objects(void)
{
	DIR *d = opendir(cache);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		n += len > 2 && !strcmp(e->d_name + len - 2, ".o");
	}
	if (d)
		closedir(d);
	return n;
}

static void teardown(void)
{
	char command[80];

	jit_fini();
	m_fini();
	snprintf(command, sizeof(command), "rm -rf %s", cache);
	cr_assert(!system(command));
}

TestSuite(vgpu_jit_registry, .init = setup, .fini = teardown, .timeout = 600);

static const struct jit_shape shape = {.nvgpr = M_NVGPR, .mode = 0x3f0};

static struct jit_kernel *get(struct vm_port *p, unsigned i, enum jit_mode mode)
{
	struct jit_kernel *k = jit_kernel_get(p, M_CODE + i * KERNEL_BYTES, &shape, mode);

	cr_assert(k);
	return k;
}

/* What is hot when the client ends is compiled behind it, all of it. */
Test(vgpu_jit_registry, left_behind)
{
	for (unsigned i = 0; i < KERNELS; i++) {
		struct jit_kernel *k = get(&M.imem, i, JIT_ON);

		M.w->pc = M_CODE + i * KERNEL_BYTES;
		M.w->state = WAVE_RUN;
		while (M.w->state == WAVE_RUN && M.w->pc != 0 && !jit_ready(k) &&
		       M.w->insns < (i + 1) * (uint64_t)HOT_RUN)
			jit_run(k, &M.x, M.w, 100000);
	}
	jit_fini();
	for (unsigned i = 0; i < 2400 && objects() < KERNELS; i++)
		usleep(100000);
	cr_assert_eq(objects(), KERNELS);
	/* They are whole: the next client takes them as they are. */
	for (unsigned i = 0; i < KERNELS; i++)
		get(&M.imem, i, JIT_EAGER);
	{
		struct jit_stats s;

		jit_stats(&s);
		cr_assert(s.cached >= KERNELS, "%lu cached, %lu compiled", s.cached, s.compiled);
	}
}

/* Without a folder to keep them in there is nobody to compile for. */
Test(vgpu_jit_registry, nothing_to_leave)
{
	setenv("VGPU_JIT_CACHE", "", 1);
	for (unsigned i = 0; i < KERNELS; i++) {
		struct jit_kernel *k = get(&M.imem, i, JIT_ON);

		M.w->pc = M_CODE + i * KERNEL_BYTES;
		M.w->state = WAVE_RUN;
		jit_run(k, &M.x, M.w, HOT_RUN);
	}
	jit_fini();
	cr_assert_eq(objects(), 0);
}

/* What a machine that lost its power left of an object is made anew. */
Test(vgpu_jit_registry, spoiled_objects)
{
	char command[160];

	cr_assert(jit_ready(get(&M.imem, 0, JIT_EAGER)));
	jit_fini();
	cr_assert_eq(objects(), 1);
	snprintf(command, sizeof(command),
		 "for f in %s/*.o; do dd if=/dev/zero of=$f bs=1024 count=4 2>/dev/null; done",
		 cache);
	cr_assert(!system(command));
	for (unsigned i = 0; i < 2; i++) {
		struct jit_kernel *k = get(&M.imem, 0, JIT_EAGER);
		struct jit_stats s;

		cr_assert(jit_ready(k), "%s", jit_refusal(k));
		jit_stats(&s);
		cr_assert_eq(s.compiled, 2);
		cr_assert_eq(s.cached, i);
		jit_fini();
	}
}

/* ---- the client's signals ------------------------------------------------- */

static void compile_all(void)
{
	for (unsigned i = 0; i < KERNELS; i++) {
		struct jit_kernel *k = get(&M.imem, i, JIT_EAGER);

		cr_assert(jit_ready(k), "kernel %u: %s", i, jit_refusal(k));
	}
}

/* What a program ignores stays so in what it executes: of the compiler's children the kernel would keep
 * nothing, and their bound on time would not hold. */
Test(vgpu_jit_registry, client_that_ignores_signals)
{
	signal(SIGCHLD, SIG_IGN);
	signal(SIGXCPU, SIG_IGN);
	compile_all();
	signal(SIGCHLD, SIG_DFL); /* the clean-up's system() */
}

/* What may not be kept is compiled all the same. */
Test(vgpu_jit_registry, client_that_may_write_no_files)
{
	struct rlimit old, none;
	struct jit_kernel *k;
	bool ready;

	getrlimit(RLIMIT_FSIZE, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &none);
	k = get(&M.imem, 0, JIT_EAGER);
	ready = jit_ready(k);
	setrlimit(RLIMIT_FSIZE, &old);
	cr_assert(ready, "%s", jit_refusal(k));
	cr_assert_eq(objects(), 0);
}

/* The compiler does not count on the client's standard files: where some are closed, the numbers are others'. */
Test(vgpu_jit_registry, client_without_standard_files)
{
	enum { FILES = 4 }; /* and the number that the compiler finds its socket at */
	static const unsigned closed[] = {1, 3, 7, 9, 13};
	int old[FILES];

	for (int fd = 0; fd < FILES; fd++)
		old[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	for (unsigned i = 0; i < sizeof(closed) / sizeof(*closed); i++) {
		struct jit_kernel *k;
		bool ready;

		for (int fd = 0; fd < FILES; fd++)
			if (closed[i] >> fd & 1)
				close(fd);
		setenv("VGPU_JIT_CACHE", "", 1);
		k = get(&M.imem, i % KERNELS, JIT_EAGER);
		ready = jit_ready(k);
		for (int fd = 0; fd < FILES; fd++)
			if (old[fd] >= 0)
				dup2(old[fd], fd);
		cr_assert(ready, "closed: 0x%x: %s", closed[i], jit_refusal(k));
		jit_fini();
	}
}

static pid_t client;
static unsigned elsewhere; /* atomic */
static bool enough;        /* atomic */

static void on_signal(int sig)
{
	(void)sig;
	if (getpid() != client)
		__atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
}

static void *send_signals(void *arg)
{
	while (!__atomic_load_n(&enough, __ATOMIC_RELAXED))
		kill(0, SIGUSR1);
	return arg;
}

/* A terminal's signals go to the whole group, which the compiler is of until it runs: they neither get
 * to the client's handler there, where its memory is the client's, nor end it. */
Test(vgpu_jit_registry, signals_while_it_starts)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t t;

	setpgid(0, 0);
	client = getpid();
	cr_assert_eq(getpgrp(), client, "a group of its own");
	cr_assert_eq(sigaction(SIGUSR1, &a, NULL), 0);
	cr_assert(!pthread_create(&t, NULL, send_signals, NULL));
	for (unsigned round = 0; round < 5; round++) {
		compile_all();
		jit_fini();
		setenv("VGPU_JIT_CACHE", "", 1);
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	cr_assert_eq(elsewhere, 0, "%u signals were handled in another process", elsewhere);
}

/* ---- one record ---------------------------------------------------------- */

static pthread_barrier_t together;
static struct jit_kernel *found[THREADS][KERNELS];

static void *look(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	struct vm_port p;

	vm_port_init(&p, M.vm, VM_CLIENT_SQC_INST);
	pthread_barrier_wait(&together);
	for (unsigned i = 0; i < KERNELS; i++)
		found[me][i] = get(&p, i, JIT_ON);
	return NULL;
}

Test(vgpu_jit_registry, one_record_for_all_threads)
{
	for (unsigned round = 0; round < 20; round++) {
		pthread_t t[THREADS];

		pthread_barrier_init(&together, NULL, THREADS);
		for (unsigned i = 0; i < THREADS; i++)
			cr_assert(!pthread_create(&t[i], NULL, look, (void *)(uintptr_t)i));
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
		for (unsigned i = 1; i < THREADS; i++)
			for (unsigned k = 0; k < KERNELS; k++)
				cr_assert(found[i][k] == found[0][k]);
		pthread_barrier_destroy(&together);
		jit_fini();
	}
}

/* Code that changed has a record of its own; changed back, the old one again. */
Test(vgpu_jit_registry, code_that_changes)
{
	struct jit_kernel *first = get(&M.imem, 1, JIT_ON), *other;

	M.code[KERNEL_BYTES / 4 + 2] ^= 1;
	isa_icache_invalidate();
	other = get(&M.imem, 1, JIT_ON);
	cr_assert(other != first);
	M.code[KERNEL_BYTES / 4 + 2] ^= 1;
	isa_icache_invalidate();
	cr_assert(get(&M.imem, 1, JIT_ON) == first);
}

/* ---- side by side -------------------------------------------------------- */

static unsigned nested;

static void on_span(struct vm_watch *w, const struct vm_port *p, enum vm_op op, uint64_t va,
		    size_t n, unsigned cache_bits)
{
	struct vm_port other;

	(void)w, (void)p, (void)op, (void)va, (void)n, (void)cache_bits;
	vm_port_init(&other, M.vm, VM_CLIENT_SQC_INST);
	get(&other, 1 + nested++ % (KERNELS - 1), JIT_ON);
}

/* While one kernel's code is being read, others are found: nothing waits for slow memory. */
Test(vgpu_jit_registry, reading_code_keeps_nobody)
{
	struct vm_watch watch = {.span = on_span};
	struct vm_port p;

	vm_port_init(&p, M.vm, VM_CLIENT_SQC_INST);
	p.watch = &watch;
	get(&p, 0, JIT_ON);
	cr_assert(nested > 0);
}
