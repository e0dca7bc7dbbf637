/* The device and the process object behind /dev/kfd. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/check.h"
#include "count/count.h"
#include "drm/drm_file.h"
#include "share/share.h"
#include "vm/rawsys.h"

struct kfd_device kfd_device = {.lock = PTHREAD_MUTEX_INITIALIZER};
struct vgpu_files vgpu_files;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

bool vgpu_device_alive(void)
{
	return kfd_device.mm && kfd_device.mm == vgpu_mm_generation();
}

int vgpu_device_describe(void)
{
	int err = vgpu_config_load();

	if (!err && !vgpu_props.gpu_id)
		vgpu_props_init(&vgpu_props);
	return err;
}

/* Locks may have been held by threads that are not here, and everything behind the process object
 * is the parent's: it stays reachable from inherited fds, which refuse every ioctl. */
static void reset_after_fork(void)
{
	pthread_mutex_init(&kfd_device.lock, NULL);
	timers_after_fork();
	smi_after_fork();
	kfd_mm_after_fork();
	vgpu_changed_after_fork();
	kfd_pressure_after_fork();
	kfd_reset_after_fork();
	drm_submissions_after_fork();
	gem_after_fork();
	kfd_contexts_after_fork();
	kfd_shared_after_fork();
	kfd_irq_after_fork();
}

void kfd_after_fork(void)
{
	pthread_mutex_init(&open_lock, NULL);
	reset_after_fork();
}

/* Of a client that was built with ThreadSanitizer. */
extern void __tsan_init(void) __attribute__((weak));

/* Its runtime kills a forked child that starts threads if the parent had any; the device is threads,
 * which it takes for the client's own. It says so itself, but not what else there is. */
static void warn_of_tsan(void)
{
	const char *options = getenv("TSAN_OPTIONS");

	if (__tsan_init && (!options || !strstr(options, "die_after_fork=0")))
		fprintf(stderr, "vgpu: ThreadSanitizer ends a forked child that starts threads, as "
				"the device here does: set TSAN_OPTIONS=die_after_fork=0, or run "
				"the program with barewave vgpu --trap\n");
}

static int device_init_locked(void)
{
	int err;

	if (vgpu_device_alive())
		return 0;
	err = vgpu_device_describe();
	if (err)
		return err;
	count_init();
	check_init();
	if (share_on()) {
		/* Made without libc's fork, the child still has its parent's connections. */
		if (kfd_device.mm && !vgpu_device_alive())
			share_after_fork();
		err = kfd_shared_join();
		if (err)
			return err;
	}
	if (vgpu_config.gpus) {
		vm_fragmented = vgpu_config.fragmented;
		if (vgpu_config.tables)
			vm_tables_limit = (uint64_t)vgpu_config.tables * VM_PAGE;
		err = vm_pools_init(vgpu_config.vram_bytes, vgpu_config.gtt_bytes);
		if (err)
			return err;
	}
	/* Made without libc's fork, the child has not run the handlers. */
	if (kfd_device.mm) {
		reset_after_fork();
		warn_of_tsan();
	}
	memset(&kfd_device, 0, sizeof(kfd_device));
	pthread_mutex_init(&kfd_device.lock, NULL);
	kfd_limits_init(&kfd_device.limits, vgpu_config.ram_bytes, vgpu_config.gtt_bytes);
	kfd_device.next_pasid = 0x8000;
	kfd_device.sdma_used = (1u << KFD_SDMA_RESERVED) - 1;
	kfd_device.mm = vgpu_mm_generation();
	return 0;
}

int vgpu_device_init(void)
{
	int err;

	pthread_mutex_lock(&open_lock);
	err = device_init_locked();
	pthread_mutex_unlock(&open_lock);
	return err;
}

void vgpu_device_settle(void)
{
	if (vgpu_device_alive())
		kfd_irq_drain();
}

void vgpu_device_fini(void)
{
	if (!vgpu_device_alive())
		return;
	timers_stop();
	kfd_irq_stop();
}

static void read_comm(char comm[16], pid_t tid)
{
	char path[64];
	long fd, n = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		n = rawsys3(SYS_read, fd, comm, 15);
		rawsys1(SYS_close, fd);
	}
	if (n <= 0) {
		strcpy(comm, "unknown");
		return;
	}
	comm[n] = 0;
	comm[strcspn(comm, "\n")] = 0;
}

/* Doorbells that belong to the other engines: NAVI10 assignment, soc21.c. */
static void reserve_doorbells(struct kfd_pdd *pdd)
{
	for (unsigned half = 0; half < 1024; half += 512) {
		for (unsigned i = 0x100; i <= 0x190; i++)
			pdd->doorbell_bitmap[(half + i) / 32] |= 1u << (half + i) % 32;
	}
}

int kfd_process_new(struct kfd_process **out)
{
	struct kfd_process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	kfd_event_process_init(p);
	p->lead = getpid();
	p->mm = vgpu_mm_generation();
	p->pasid = share_active() ? kfd_shared_pasid()
				  : __atomic_add_fetch(&kfd_device.next_pasid, 1, __ATOMIC_RELAXED);
	p->pdd.doorbell_fd = -1;
	p->n_pdds = vgpu_config.gpus;
	reserve_doorbells(&p->pdd);
	read_comm(p->comm, p->lead);
	*out = p;
	return 0;
}

int kfd_open(struct kfd_process **out)
{
	static bool atfork;
	struct kfd_process *p = NULL;
	int err;

	pthread_mutex_lock(&open_lock);
	err = device_init_locked();
	if (err)
		goto out;
	if (!atfork) {
		pthread_atfork(NULL, NULL, kfd_after_fork);
		atfork = true;
	}
	/* "KFD is locked! Cannot create process", and no other open either. */
	if (vgpu_rule(RULE_reset_locks_open) && kfd_is_locked()) {
		err = -EINVAL;
		goto out;
	}
	p = kfd_process_current();
	if (p)
		goto out;
	err = kfd_process_new(&p);
	if (err)
		goto out;
	err = dbg_state_open(p);
	if (err) {
		free(p);
		goto out;
	}
	kfd_contexts_begin(p);
out:
	pthread_mutex_unlock(&open_lock);
	if (!err)
		*out = p;
	return err;
}

struct kfd_pdd *kfd_pdd_by_id(struct kfd_process *p, uint32_t gpu_id)
{
	return p->n_pdds && gpu_id == vgpu_props.gpu_id ? &p->pdd : NULL;
}

KFD_HANDLER(get_version)
{
	struct kfd_ioctl_get_version_args *a = args;

	(void)p;
	a->major_version = 1;
	a->minor_version = vgpu_kernel()->kfd_minor;
	return 0;
}

KFD_HANDLER(get_clock_counters)
{
	struct kfd_ioctl_get_clock_counters_args *a = args;
	struct timespec ts;

	pthread_mutex_lock(&p->lock);
	/* An unknown device is no error here: its counter reads zero. */
	a->gpu_clock_counter = kfd_pdd_by_id(p, a->gpu_id) ? vgpu_clock_gpu() : 0;
	pthread_mutex_unlock(&p->lock);
	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	a->cpu_clock_counter = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	a->system_clock_counter = kfd_boottime_ns();
	a->system_clock_freq = 1000000000;
	return 0;
}

static void fill_apertures(struct kfd_process_device_apertures *a)
{
	memset(a, 0, sizeof(*a));
	a->lds_base = vgpu_props.lds_base;
	a->lds_limit = vgpu_props.lds_limit;
	a->scratch_base = vgpu_props.scratch_base;
	a->scratch_limit = vgpu_props.scratch_limit;
	a->gpuvm_base = vgpu_props.gpuvm_base;
	a->gpuvm_limit = vgpu_props.gpuvm_limit;
	a->gpu_id = vgpu_props.gpu_id;
}

KFD_HANDLER(get_process_apertures)
{
	struct kfd_ioctl_get_process_apertures_args *a = args;

	if (p->n_pdds)
		fill_apertures(&a->process_apertures[0]);
	a->num_of_nodes = p->n_pdds;
	return 0;
}

KFD_HANDLER(get_process_apertures_new)
{
	struct kfd_ioctl_get_process_apertures_new_args *a = args;
	struct kfd_process_device_apertures ap;

	if (!a->num_of_nodes) {
		a->num_of_nodes = p->n_pdds;
		return 0;
	}
	/* Topology nodes, the CPU's included. */
	if (a->num_of_nodes > 1 + vgpu_config.gpus)
		return -EINVAL;
	a->num_of_nodes = p->n_pdds;
	if (!p->n_pdds)
		return 0;
	fill_apertures(&ap);
	return user_write(a->kfd_process_device_apertures_ptr, &ap, sizeof(ap));
}

/* The first-level trap handler's pages: made by the kernel at ACQUIRE_VM, counted like any GTT
 * memory (kfd_process.c:kfd_process_device_init_cwsr_dgpu). */
static int init_cwsr(struct kfd_pdd *pdd, struct vm *vm)
{
	struct gem *g;
	int err;

	err = kfd_mem_reserve(KFD_IOC_ALLOC_MEM_FLAGS_GTT, KFD_CWSR_TBA_TMA_SIZE);
	if (err)
		return err;
	err = gem_create(GEM_GTT, KFD_CWSR_TBA_TMA_SIZE, &g);
	if (!err) {
		/* Mapped where the address space keeps room for it. */
		err = vm_tables_reserve(vm, VM_RESERVED_TRAP, KFD_CWSR_TBA_TMA_SIZE);
		if (err)
			gem_unref(g);
	}
	if (err) {
		kfd_mem_unreserve(KFD_IOC_ALLOC_MEM_FLAGS_GTT, KFD_CWSR_TBA_TMA_SIZE);
		return err;
	}
	g->kernel = true;
	gem_charge(g, KFD_IOC_ALLOC_MEM_FLAGS_GTT);
	pdd->cwsr_kernel = g;
	return 0;
}

KFD_HANDLER(acquire_vm)
{
	struct kfd_ioctl_acquire_vm_args *a = args;
	struct drm_file *f = NULL;
	struct kfd_pdd *pdd;
	bool any = vgpu_files.fd_valid((int)a->drm_fd);
	long err = 0;

	if (!any)
		return -EINVAL;
	f = vgpu_files.drm_file((int)a->drm_fd);
	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, a->gpu_id);
	if (!pdd) {
		err = -EINVAL;
		goto out;
	}
	if (pdd->drm) {
		err = pdd->drm == f ? 0 : -EBUSY;
		goto out;
	}
	/* Not a file of this driver, or its VM is somebody's compute VM already. */
	if (!f || f->compute) {
		err = -EINVAL;
		goto out;
	}
	/* Or another process's that has the file too. */
	if (kfd_shared_compute(f, true)) {
		err = -EINVAL;
		goto out;
	}
	kfd_lock_lend(p);
	err = init_cwsr(pdd, f->vm);
	kfd_lock_reclaim(p);
	if (err)
		goto out;
	f->compute = true;
	f->pasid = p->pasid;
	pdd->drm = f;
	pdd->vm = f->vm;
	p->acquire_tid = (pid_t)rawsys0(SYS_gettid);
	read_comm(p->acquire_comm, p->acquire_tid);
	if (vgpu_kernel()->smi_process_events)
		smi_event(p->lead, KFD_SMI_EVENT_PROCESS_START, "%x %s\n", p->lead, p->comm);
	f = NULL; /* the pdd keeps the reference */
out:
	pthread_mutex_unlock(&p->lock);
	if (f)
		vgpu_files.drm_file_put(f);
	return err;
}

KFD_HANDLER(set_memory_policy)
{
	struct kfd_ioctl_set_memory_policy_args *a = args;
	struct kfd_pdd *pdd;
	long err = 0;

	if (a->default_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT ||
	    a->alternate_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT)
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, a->gpu_id);
	if (!pdd) {
		err = -EINVAL;
	} else if (!kfd_pdd_bound(pdd)) {
		err = -ESRCH;
	} else {
		/* gfx11 programs SH_MEM_CONFIG and ignores both policies and the aperture. */
		pdd->default_policy = a->default_policy;
		pdd->alternate_policy = a->alternate_policy;
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(set_scratch_backing_va)
{
	struct kfd_ioctl_set_scratch_backing_va_args *a = args;
	struct kfd_pdd *pdd;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, a->gpu_id);
	if (!pdd)
		err = -EINVAL;
	else if (!kfd_pdd_bound(pdd))
		err = -ENODEV;
	else
		pdd->scratch_va = a->va_addr;
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(set_trap_handler)
{
	struct kfd_ioctl_set_trap_handler_args *a = args;
	struct kfd_pdd *pdd;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, a->gpu_id);
	if (!pdd) {
		err = -EINVAL;
	} else if (!kfd_pdd_bound(pdd)) {
		err = -ESRCH;
	} else {
		/* Second level: the kernel's own handler jumps there; takes effect at once. */
		pdd->tba = a->tba_addr;
		pdd->tma = a->tma_addr;
		kfd_queues_set_trap_handler(p);
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(get_tile_config)
{
	enum { TILES = 32, MACRO_TILES = 16, GB_ADDR_CONFIG = 0x363 };
	static const uint32_t none[TILES];
	struct kfd_ioctl_get_tile_config_args *a = args;

	if (!kfd_pdd_by_id(p, a->gpu_id))
		return -EINVAL;
	a->gb_addr_config = GB_ADDR_CONFIG;
	a->num_banks = a->num_ranks = 0;
	if (a->num_tile_configs > TILES)
		a->num_tile_configs = TILES;
	if (user_write(a->tile_config_ptr, none, a->num_tile_configs * sizeof(uint32_t))) {
		a->num_tile_configs = 0;
		return -EFAULT;
	}
	if (a->num_macro_tile_configs > MACRO_TILES)
		a->num_macro_tile_configs = MACRO_TILES;
	if (user_write(a->macro_tile_config_ptr, none,
		       a->num_macro_tile_configs * sizeof(uint32_t))) {
		a->num_macro_tile_configs = 0;
		return -EFAULT;
	}
	return 0;
}

KFD_HANDLER(set_xnack_mode)
{
	struct kfd_ioctl_set_xnack_mode_args *a = args;
	long err = 0;

	if (!vgpu_rule(RULE_svm_api))
		return -EPERM;
	pthread_mutex_lock(&p->lock);
	if (a->xnack_enabled < 0)
		a->xnack_enabled = 0; /* a query; gfx11 never has retry faults */
	else if (p->n_queues)
		err = -EBUSY;
	else if (a->xnack_enabled)
		err = -EPERM;
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(available_memory)
{
	struct kfd_ioctl_get_available_memory_args *a = args;
	struct kfd_pdd *pdd = kfd_pdd_by_id(p, a->gpu_id);

	if (!pdd)
		return -EINVAL;
	if (share_active())
		return kfd_shared_available(&a->available);
	pthread_mutex_lock(&kfd_device.lock);
	a->available = kfd_limits_available(&kfd_device.limits);
	pthread_mutex_unlock(&kfd_device.lock);
	return 0;
}
