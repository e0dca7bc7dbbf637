/* The virtual KFD's conformance: each ioctl, each errno that the kernel's rules give it.
 *
 * Raw ioctls, no driver library. A group runs in a child of its own with a fresh device; what it
 * observed comes back over a pipe, so that the last test can hold the sum against the table of
 * (ioctl, errno) pairs and print how many are covered.
 */
#include <criterion/criterion.h>

#include "ioctl/context.h"
#include "ioctl/debug.h"
#include "ioctl/device.h"
#include "ioctl/drm.h"
#include "ioctl/memory.h"
#include "ioctl/queue.h"

/* ---- the runner ----------------------------------------------------------- */

static const struct group {
	const char *name;
	void (*fn)(void);
	const char *set; /* configuration of the device */
} groups[] = {
	{"dispatch", group_dispatch, ""},
	{"before ACQUIRE_VM", group_before_acquire, ""},
	{"ACQUIRE_VM", group_acquire, ""},
	{"small device calls", group_small, ""},
	{"memory", group_memory, ""},
	{"events", group_events, ""},
	{"waits", group_waits, ""},
	{"queue arguments", group_queue_args, ""},
	{"queues", group_queues, ""},
	{"queue limits", group_queue_limits, ""},
	{"a hung scheduler", group_hang, "hang=queue:0,rule.reset_evicts=0"},
	{"interrupts and faults", group_faults, ""},
	{"SVM", group_svm, ""},
	{"SMI", group_smi, ""},
	{"eviction", group_eviction, ""},
	{"memory pressure", group_pressure, "evict_ms=20"},
	{"dma-buf", group_dmabuf, ""},
	{"debugger", group_debug, ""},
	{"render node", group_drm, ""},
	{"CRIU", group_criu, ""},
	{"mmap", group_mmap, ""},
	{"memory limits", group_limits, "gtt=64M,ram=256M"},
	{"a large carve-out", group_carve_out, "kernel=7.3,vram=256M,gtt=64M,ram=512M"},
	{"runtime", group_runtime, ""},
	{"doorbells", group_doorbells, "rule.queue_per_process_limit=0"},
	{"kernel 7.3", group_new_kernel, "kernel=7.3"},
	{"secondary processes", group_contexts, "kernel=7.3"},
	{"lives of secondary processes", group_context_life, "kernel=7.3"},
	{"memory pressure on two", group_context_pressure, "kernel=7.3,evict_ms=20"},
	{"without SVM", group_no_svm, "rule.svm_api=0"},
	{"without GWS", group_no_gws, "mes_version=64"},
	{"without a GPU", group_no_gpu, "gpus=0"},
};

#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

static struct seen all[1024];
static size_t n_all;

static void note(const struct seen *s)
{
	for (size_t i = 0; i < n_all; i++) {
		if (all[i].nr == s->nr && all[i].err == s->err)
			return;
	}
	cr_assert_lt(n_all, sizeof(all) / sizeof(all[0]));
	all[n_all++] = *s;
}

/* rule: one that is switched off, or NULL; then failures are expected and stay silent. */
static int run_group(const struct group *g, const char *rule)
{
	char set[128];
	struct seen s;
	int fd[2], status;
	pid_t pid;

	cr_assert_eq(pipe(fd), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(fd[0]);
		report = fd[1];
		snprintf(set, sizeof(set), "%s%s%s%s", g->set, *g->set && rule ? "," : "",
			 rule ? rule : "", rule ? "=0" : "");
		setenv("VGPU_SET", set, 1);
		if (rule && !freopen("/dev/null", "w", stderr))
			_exit(99);
		if (rule)
			patience = 1500;
		alarm(600);
		g->fn();
		exit(failures ? 1 : 0);
	}
	close(fd[1]);
	while (read(fd[0], &s, sizeof(s)) == sizeof(s)) {
		if (!rule)
			note(&s);
	}
	close(fd[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* What the digest of the kernel's rules says each call may answer. */
static const struct {
	uint32_t nr;
	int errs[16];
} wanted[] = {
	{NR_ANY, {ENOTTY, EBADF}},
	{KFD_NR_GET_VERSION, {EFAULT}},
	{KFD_NR_CREATE_QUEUE,
	 {EINVAL, EFAULT, KFD_ENOTSUPP, ESRCH, ENOSPC, ENOMEM, EPERM, EBUSY, EIO}},
	{KFD_NR_DESTROY_QUEUE, {EINVAL, ETIMEDOUT, EIO, EBUSY}},
	{KFD_NR_SET_MEMORY_POLICY, {EINVAL, ESRCH}},
	{KFD_NR_UPDATE_QUEUE, {EINVAL, EFAULT, EACCES}},
	{KFD_NR_CREATE_EVENT, {EINVAL, ENODEV, ENOSPC, ENOMEM}},
	{KFD_NR_DESTROY_EVENT, {EINVAL}},
	{KFD_NR_SET_EVENT, {EINVAL, EFAULT}},
	{KFD_NR_RESET_EVENT, {EINVAL}},
	{KFD_NR_WAIT_EVENTS, {ENOMEM, EFAULT, EINVAL, EIO, EINTR}},
	{KFD_NR_DBG_REGISTER_DEPRECATED, {EPERM}},
	{KFD_NR_DBG_UNREGISTER_DEPRECATED, {EPERM}},
	{KFD_NR_DBG_ADDRESS_WATCH_DEPRECATED, {EPERM}},
	{KFD_NR_DBG_WAVE_CONTROL_DEPRECATED, {EPERM}},
	{KFD_NR_SET_SCRATCH_BACKING_VA, {EINVAL, ENODEV}},
	{KFD_NR_GET_TILE_CONFIG, {EINVAL, EFAULT}},
	{KFD_NR_SET_TRAP_HANDLER, {EINVAL, ESRCH}},
	{KFD_NR_GET_PROCESS_APERTURES_NEW, {EINVAL, EFAULT}},
	{KFD_NR_ACQUIRE_VM, {EINVAL, EBUSY}},
	{KFD_NR_ALLOC_MEMORY_OF_GPU,
	 {EINVAL, EADDRINUSE, ENODEV, ENOMEM, EFAULT, EAGAIN, EOPNOTSUPP}},
	{KFD_NR_FREE_MEMORY_OF_GPU, {EPERM, EINVAL, EBUSY}},
	{KFD_NR_MAP_MEMORY_TO_GPU, {EINVAL, EFAULT, ENOMEM, ENODEV}},
	{KFD_NR_UNMAP_MEMORY_FROM_GPU, {EINVAL, EFAULT, ENOMEM, EBUSY}},
	{KFD_NR_SET_CU_MASK, {EINVAL, EFAULT, EBUSY}},
	{KFD_NR_GET_QUEUE_WAVE_STATE, {EINVAL, EFAULT}},
	{KFD_NR_GET_DMABUF_INFO, {EINVAL, EBADF, EFAULT}},
	{KFD_NR_IMPORT_DMABUF, {EINVAL, ENODEV, EBADF}},
	{KFD_NR_ALLOC_QUEUE_GWS, {EINVAL, ENODEV, EBUSY}},
	{KFD_NR_SMI_EVENTS, {EINVAL, EMFILE}},
	{NR_SMI_READ, {EAGAIN}},
	{NR_SMI_WRITE, {EFAULT}},
	{KFD_NR_SVM, {EINVAL, EFAULT, EADDRINUSE, EOVERFLOW, EPERM, ENOMEM, EOPNOTSUPP}},
	{KFD_NR_SET_XNACK_MODE, {EBUSY, EPERM}},
	{KFD_NR_CRIU_OP, {EACCES, EINVAL, ENODEV, ESRCH}},
	{KFD_NR_AVAILABLE_MEMORY, {EINVAL}},
	{KFD_NR_EXPORT_DMABUF, {EINVAL, EPERM, EMFILE}},
	{KFD_NR_RUNTIME_ENABLE, {EBUSY, EEXIST}},
	{KFD_NR_DBG_TRAP,
	 {ESRCH, EPERM, EINVAL, EALREADY, EBADF, EFAULT, ENODEV, EAGAIN, ENODATA, EACCES, EBUSY,
	  EOPNOTSUPP}},
	{KFD_NR_CREATE_PROCESS, {EINVAL}},
	{KFD_NR_PROFILER, {EINVAL, EPERM, EALREADY, EBUSY, EOPNOTSUPP}},
	{NR_MMAP, {EINVAL, ENODEV, EBADF}},
	{NR_DRM_MMAP, {EINVAL, EACCES, EPERM}},
};

/* Those of them that no call on this device is answered with. */
static const struct {
	uint32_t nr;
	int err;
	const char *why;
} unreachable[] = {
	{KFD_NR_ALLOC_MEMORY_OF_GPU, EAGAIN,
	 "user pages that other threads pull away for as long as the kernel has patience, a second "
	 "for every 128 MiB (amdgpu_hmm_range_get_pages): a race that is not staged"},
	{KFD_NR_SET_CU_MASK, EBUSY,
	 "the debugger's save-area workaround of GC 11.0.0 to 11.0.3 "
	 "(kfd_dbg_has_cwsr_workaround): "
	 "this is 11.5.1"},
};

/* Those that only root is answered with. */
static bool needs_root(uint32_t nr, int err)
{
	return (nr == KFD_NR_CRIU_OP && err != EACCES) ||
	       (nr == KFD_NR_PROFILER && (err == EALREADY || err == EBUSY));
}

static const char *why_unreachable(uint32_t nr, int err)
{
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
		if (unreachable[i].nr == nr && unreachable[i].err == err)
			return unreachable[i].why;
	}
	return needs_root(nr, err) && geteuid() ? "only root gets that far" : NULL;
}

Test(ioctl, conformance, .timeout = 1100)
{
	size_t n = 0, covered = 0, excused = 0, ok = 0;
	int devnull = open("/dev/null", O_RDONLY);

	cr_assert_geq(devnull, 0);
	close(devnull);
	for (size_t i = 0; i < N_GROUPS; i++) {
		int status = run_group(&groups[i], NULL);

		cr_expect_eq(status, 0, "%s: exit status 0x%x", groups[i].name, status);
		ok += status == 0;
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		for (size_t j = 0; j < 16 && wanted[i].errs[j]; j++, n++) {
			bool hit = false;

			for (size_t k = 0; k < n_all && !hit; k++)
				hit = all[k].nr == wanted[i].nr &&
				      all[k].err == (uint32_t)wanted[i].errs[j];
			const char *why = why_unreachable(wanted[i].nr, wanted[i].errs[j]);

			covered += hit;
			excused += !hit && why;
			if (!hit)
				printf("not reached: nr 0x%02x %s: %s\n", wanted[i].nr,
				       errname(wanted[i].errs[j]), why ? why : "nobody knows why");
			cr_expect(hit || why, "nr 0x%02x %s is covered no longer", wanted[i].nr,
				  errname(wanted[i].errs[j]));
			cr_expect(!(hit && why), "nr 0x%02x %s is said to be out of reach",
				  wanted[i].nr, errname(wanted[i].errs[j]));
		}
	}
	printf("(ioctl, errno) pairs: %zu of the digest's %zu covered, %zu out of reach here; %zu "
	       "pairs seen; %zu of %zu groups\n",
	       covered, n, excused, n_all, ok, N_GROUPS);
}

/* Each rule that is switched off is a defect of the device: the group that watches it must see it.
 */
static const struct {
	const char *rule, *group;
} defects[] = {
	{"rule.fork_ebadf", "dispatch"},
	{"rule.queue_wptr_mapping", "queue arguments"},
	{"rule.queue_rptr_mapping", "queue arguments"},
	{"rule.queue_ring_mapping", "queue arguments"},
	{"rule.queue_eop_size", "queue arguments"},
	{"rule.queue_eop_mapping", "queue arguments"},
	{"rule.queue_ctl_stack_size", "queue arguments"},
	{"rule.queue_cwsr_size", "queue arguments"},
	{"rule.queue_cwsr_mapping", "queue arguments"},
	{"rule.queue_per_process_limit", "queue limits"},
	{"rule.queue_sdma_limit", "queue limits"},
	{"rule.unmap_queue_busy", "queues"},
	{"rule.free_mapped_busy", "memory"},
	{"rule.free_event_page_eperm", "events"},
	{"rule.doorbell_mmap_size", "queues"},
	{"rule.runtime_before_queues", "queues"},
	{"rule.queue_cwsr_vgprs", "queue arguments"},
	{"rule.queue_wptr_pinned", "queue arguments"},
	{"rule.limit_system", "memory limits"},
	{"rule.limit_ttm", "a large carve-out"},
	{"rule.limit_vram", "memory limits"},
	{"rule.queue_error_to_runtime", "runtime"},
	{"rule.svm_api", "SVM"},
	{"rule.event_slot_ack", "interrupts and faults"},
	{"rule.event_slot_scan", "interrupts and faults"},
	{"rule.event_wake_all", "waits"},
	{"rule.vm_fault_evicts", "interrupts and faults"},
	{"rule.vm_fault_event", "interrupts and faults"},
	{"rule.userptr_invalidate", "eviction"},
	{"rule.wait_jiffies", "waits"},
};

/* Those that another program of the suite switches off, under the name given here. */
static const struct {
	const char *rule, *file, *text;
} elsewhere[] = {
	{"reset_hw_exception", "tests/virt_reset.c", "rule.reset_hw_exception=0"},
	{"reset_evicts", "tests/virt_reset.c", "rule.reset_evicts=0"},
	{"reset_locks_open", "tests/virt_reset.c", "rule.reset_locks_open=0"},
	{"cwsr_save_vgprs", "tests/vgpu_cwsr.c", "DEFECT(vgprs)"},
	{"cwsr_save_sgprs", "tests/vgpu_cwsr.c", "DEFECT(sgprs)"},
	{"cwsr_save_m0", "tests/vgpu_cwsr.c", "DEFECT(m0)"},
	{"cwsr_save_pc", "tests/vgpu_cwsr.c", "DEFECT(pc)"},
	{"cwsr_save_exec", "tests/vgpu_cwsr.c", "DEFECT(exec)"},
	{"cwsr_save_status", "tests/vgpu_cwsr.c", "run_scc(\"cwsr_save_status\")"},
	{"cwsr_save_trapsts", "tests/vgpu_cwsr.c", "DEFECT(trapsts)"},
	{"cwsr_save_mode", "tests/vgpu_cwsr.c", "DEFECT(mode)"},
	{"cwsr_save_flat_scratch", "tests/vgpu_cwsr.c", "DEFECT(flat_scratch)"},
	{"cwsr_save_ttmps", "tests/vgpu_cwsr.c", "run_ttmps(\"cwsr_save_ttmps\")"},
	{"cwsr_save_lds", "tests/vgpu_cwsr.c", "DEFECT(lds)"},
	{"mes_remove_queue", "tests/vgpu_cwsr.c", "vgpu_rule_set(\"mes_remove_queue\", false)"},
	{"cu_mask", "tests/vgpu_mes.c", "vgpu_rule_set(\"cu_mask\", false)"},
};

static bool file_says(const char *path, const char *text)
{
	static char buf[1 << 20];
	FILE *f = fopen(path, "re");
	size_t n;

	cr_assert_not_null(f, "%s; the tests run in the repository's root", path);
	n = fread(buf, 1, sizeof(buf) - 1, f);
	fclose(f);
	buf[n] = 0;
	return strstr(buf, text) != NULL;
}

static bool planted_somewhere(const char *rule)
{
	for (size_t i = 0; i < sizeof(defects) / sizeof(defects[0]); i++) {
		if (!strcmp(defects[i].rule + 5, rule))
			return true;
	}
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		if (!strcmp(elsewhere[i].rule, rule))
			return file_says(elsewhere[i].file, elsewhere[i].text);
	}
	return false;
}

Test(ioctl, every_rule_is_planted)
{
#define RULE(name, def, source)                                                                    \
	cr_expect(planted_somewhere(#name), "rule " #name " is in rules.def and nobody's defect");
#include "tools/vgpu/rules.def"
#undef RULE
}

Test(ioctl, planted_defects, .timeout = 1100)
{
	for (size_t i = 0; i < sizeof(defects) / sizeof(defects[0]); i++) {
		const struct group *g = NULL;

		for (size_t j = 0; j < N_GROUPS; j++) {
			if (!strcmp(groups[j].name, defects[i].group))
				g = &groups[j];
		}
		cr_assert_not_null(g, "%s", defects[i].group);
		cr_expect_neq(run_group(g, defects[i].rule), 0, "%s off: nobody noticed",
			      defects[i].rule);
	}
}
