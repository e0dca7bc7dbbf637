/* The virtual kernel driver as the libc surface and the render node see it.
 *
 * Functions behave like the kernel's file operations: 0 or positive on success, -errno on
 * failure, and no errno set. "User" pointers are the client's and may be bad: they are only
 * touched through user_read()/user_write().
 */
#ifndef VGPU_VKFD_H
#define VGPU_VKFD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../device.h"
#include "abi.h"

struct kfd_process;
struct drm_file;
struct gem;

/* ---- what the device is (props.c, pure) ----------------------------------- */

struct vgpu_props {
	uint32_t cus, ses, shs_per_se, cus_per_sh; /* cus_per_sh is the maximum, harvested or not */
	uint32_t cu_bitmap[2][2];                  /* active CUs by SE and SH */
	uint32_t gpu_id, location_id;
	uint32_t gfx_target_version, device_id, vendor_id, pci_rev;
	uint64_t local_mem; /* bytes the topology calls local memory; part of the gpu_id hash */
	uint32_t waves, cwsr_size, ctl_stack_size, debug_memory_size, eop_size;
	uint32_t cwsr_area; /* what CREATE_QUEUE wants mapped: cwsr + debug, page aligned */
	uint32_t capability, capability2, debug_prop, num_gws;
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	bool svm;         /* SVM API offered */
	bool vram_is_gtt; /* KFD "VRAM" allocations are placed in GTT */
};
extern struct vgpu_props vgpu_props;
/* Computes them from vgpu_config; vgpu_device_init() does. */
void vgpu_props_init(struct vgpu_props *p);
uint16_t vgpu_crc16(uint16_t crc, const void *data, size_t n); /* the kernel's crc16() */

/* ---- kernel personality (personality.c, data) ----------------------------- */

struct vgpu_kernel {
	const char *name;
	const char *release; /* as /proc/sys/kernel/osrelease would say */
	uint32_t kfd_minor;
	uint32_t nr_end;               /* first nr that does not exist */
	uint32_t drm_minor, drm_patch; /* amdgpu DRM driver 3.minor.patch */
	uint32_t smi_fifo;             /* bytes */
	uint32_t wait_events_max;      /* more is ENOMEM */
	bool event_page_mmap;          /* kernel page and mmap type 2 */
	bool mmap_by_mm;               /* kfd_mmap looks up current->mm, not the file */
	bool vram_always_gtt;    /* every APU; else only when the carve-out is smaller than GTT */
	bool vram_reserve_check; /* VRAM limit is checked for APUs too */
	bool ring_counts_metadata;
	bool smi_all_needs_bit; /* CAP_SYS_ADMIN alone is not enough to see others */
	bool smi_vmfault_to_all;
	bool smi_process_events;
	bool sysfs_pasid;
	bool cu_occupancy, capability2;
	bool evict_stops_at_first, evicted_ms_from_start;
	bool fdinfo_regions; /* drm-total-*, drm-resident-* */
	bool secondary_processes, profiler;
	bool queue_type_xgmi_is_4;
	bool fault_info_is_empty; /* vm_fault_exc_data_size is never set: a debugger gets 0 bytes */
	bool queue_reset;         /* MES may reset single queues, given the firmware */
	/* Freeing a GTT-placed buffer lowers vram_<gpuid> even if allocating it did not raise it.
	 */
	bool free_lowers_vram_usage;
};
const struct vgpu_kernel *vgpu_kernel(void);

/* ---- device --------------------------------------------------------------- */

/* Configuration, properties, memory pools; once per process, again in a forked child that uses
 * the device. 0, -EINVAL for a bad configuration, or the pools' error. */
int vgpu_device_init(void);
/* Configuration and properties alone, for sysfs readers. */
int vgpu_device_describe(void);
/* At the end of the process, before its figures are written: interrupts on their way arrive. */
void vgpu_device_settle(void);
/* At exit: stops the device's threads. */
void vgpu_device_fini(void);
/* adev->gpu_reset_counter: resets of the GPU and of single rings. */
uint32_t vgpu_resets(void);
void vgpu_ring_was_reset(void);
bool vgpu_in_reset(void);
/* A job hangs on a ring that nothing smaller helps. 0 or -errno. */
int vgpu_reset_for_job(const char *ring);
/* What reading debugfs' amdgpu_gpu_recover does: resets the GPU and waits for the end. */
int kfd_gpu_recover(void);
/* The device's threads, which run from its first queue or ring on. 0 or -errno. */
int vgpu_device_start(void);
bool vgpu_device_alive(void); /* this process has initialised it */

/* Identifies the address space: changes in a forked child, not in one that shares it. Who is the first
 * to ask is taken for the process whose memory it is: every fork's child asks at once. */
uint64_t vgpu_mm_generation(void);
/* The caller is a child of vfork() that has not executed yet: tables of descriptors are its parent's. */
bool vgpu_mm_borrowed(void);

/* ---- /dev/kfd ------------------------------------------------------------- */

/* An open of /dev/kfd: the process object of this mm. */
int kfd_open(struct kfd_process **out);
/* file: what the description refers to; CREATE_PROCESS changes it. */
long kfd_ioctl(struct kfd_process **file, unsigned cmd, void *arg);
/* Descriptions and mappings that keep a secondary process alive. */
/* What a descriptor of another process refers to: an object that answers nobody here. */
struct kfd_process *kfd_process_of_another(pid_t lead);
struct kfd_process *kfd_process_own(void); /* the primary of this address space, or NULL */
void kfd_process_file_get(struct kfd_process *p);
void kfd_process_file_put(struct kfd_process *p);
/* Another process's open file of it (it came through a socket): refuses what that refuses to
 * everybody but its opener. */
int kfd_foreign(pid_t lead, struct kfd_process **out);
/* Close of the last descriptor: the process object lives as long as the process. */
void kfd_release(struct kfd_process *p);
/* The VMA of a successful mmap, for munmap and mremap to undo. */
enum vma_kind { VMA_BO, VMA_DOORBELL, VMA_EVENTS, VMA_MMIO };
struct vma_backing {
	enum vma_kind kind;
	int fd; /* what to mmap instead */
	uint64_t off;
	bool dontcopy; /* VM_DONTCOPY: absent in a forked child */
	bool dontexpand;
	struct gem *gem; /* BO: a reference the VMA holds */
	struct kfd_process *process;
};
int kfd_mmap(struct kfd_process *p, uint64_t len, uint64_t off, struct vma_backing *out);
void vma_opened(const struct vma_backing *b, void *addr, uint64_t len); /* now mapped at addr */
void vma_split(const struct vma_backing *b);                            /* one VMA became two */
void vma_closed(const struct vma_backing *b, void *addr, uint64_t len); /* unmapped */

void vma_dropped(const struct vma_backing *b); /* mmap failed after all */
/* A mapping that moved was counted twice. */
void kfd_vma_uncount(const struct vma_backing *b);

/* MMU notifier: [addr, addr+len) of the client is unmapped, moved or loses its protection. Called
 * before the change, and kfd_mm_changed() after it. */
bool kfd_mm_watched(uint64_t addr, uint64_t len);
void kfd_mm_changing(uint64_t addr, uint64_t len, bool unmap);
void kfd_mm_changed(void);
void kfd_mm_forking(void); /* copy-on-write is coming for every watched page */

/* ---- SMI event fds -------------------------------------------------------- */

struct smi_client;
ssize_t smi_write(struct smi_client *c, const void *buf, size_t n);
void smi_release(struct smi_client *c);
/* The stream behind fd, made by pid, whose mask is in a file (-1: it gets one of its own); NULL: no
 * memory or descriptors. */
struct smi_client *smi_kept(pid_t pid, bool suser, int events_fd, int fd);
ssize_t smi_read(struct smi_client *c, void *buf, size_t n);

/* ---- hooks the libc surface gives ----------------------------------------- */

/* The kernel creates fds; only the surface knows how to make one that behaves. */
struct vgpu_files {
	struct drm_file *(*drm_file)(int fd); /* with a reference on the description, or NULL */
	void (*drm_file_put)(struct drm_file *f);
	bool (*fd_valid)(int fd);
	int (*install_smi)(struct smi_client *c, int real_fd);
	/* flags: O_CLOEXEC, and O_RDWR if it may be written through a mapping */
	int (*install_dmabuf)(struct gem *g, int flags); /* takes its own reference; fd or -errno */
	bool (*vma_device)(uint64_t addr, uint64_t len); /* a device mapping lies in the range */
	struct gem *(*dmabuf_gem)(int fd);               /* with a reference, or NULL */
	int (*fdinfos)(char *buf,
		       size_t n); /* all DRM files: number and text, each with its zero */
	void (*publish)(void);    /* see vgpu_changed() */
};
extern struct vgpu_files vgpu_files;

/* For a surface that blocks the client's signals while the device works, which has the restarts to
 * itself: sleeps while *futex is seen, once at most, and for ns at most (UINT64_MAX: no limit). 0,
 * -EAGAIN, -ETIMEDOUT, or -EINTR when a signal waits. NULL: the kernel interrupts. */
extern long (*vgpu_sleep)(uint32_t *futex, uint32_t seen, uint64_t ns);
/* Every handler of the client's wants interrupted calls to be made again (SA_RESTART). */
bool vgpu_restarts(void);

/* Buffers or queues changed: vgpu_files.publish() is called soon. */
void vgpu_changed(void);
void vgpu_changed_after_fork(void);

/* KFD memory limits: 0 or -ENOMEM (logged with the limit's name). */
int kfd_mem_reserve(uint32_t alloc_flags, uint64_t size);
void kfd_mem_unreserve(uint32_t alloc_flags, uint64_t size);
/* Bytes by placement, for mem_info_*; delta may be negative. */
void kfd_mem_placed(int domain, int64_t delta);

/* ---- user memory ---------------------------------------------------------- */

int user_read(void *dst, uint64_t src, size_t n);        /* 0 or -EFAULT */
int user_write(uint64_t dst, const void *src, size_t n); /* 0 or -EFAULT */
bool user_range_ok(uint64_t addr, uint64_t n);           /* access_ok() */
/* access_ok() of a size that is constant and at most a page: it looks at the address alone. */
bool user_address_ok(uint64_t addr);

/* Bytes of the buffers that f's compute VM has seen, by domain: what fdinfo counts. */
void kfd_vm_memory(const struct drm_file *f, uint64_t *gtt, uint64_t *vram);
void vgpu_count_gem_handle(int n);
void vgpu_count_dmabuf(int n);

/* ---- counters ------------------------------------------------------------- */

struct vgpu_stats {
	uint64_t bos, bo_bytes, mappings, queues, events, doorbell_maps, bo_maps, user_pages,
		svm_ranges, gem_handles, dmabufs, smi_clients;
	uint64_t contexts, bo_lists, syncobjs, fences; /* of render nodes */
	uint64_t kernel_bos, kernel_bytes; /* made by the kernel itself: trap handler pages */
	uint64_t gtt_used, vram_used, preempt_used;         /* bytes by placement */
	uint64_t page_tables;                               /* bytes, part of vram_used */
	uint64_t sys_reserved, ttm_reserved, vram_reserved; /* KFD limits, bytes */
	uint64_t peak_bo_bytes, ioctls, evictions, vm_faults;
};
void vgpu_stats(struct vgpu_stats *out);
/* One JSON object on one line, without newline; returns its length. */
int vgpu_stats_json(char *buf, size_t n);

/* ---- per-process sysfs (class/kfd/kfd/proc/<pid>) -------------------------- */

bool kfd_process_exists(void);
pid_t kfd_process_pid(void);
/* Writes the attribute named (relative to proc/<pid>/) to buf; -ENOENT if it does not exist. */
int kfd_proc_attr(const char *name, char *buf, size_t n);
/* Calls fn for every attribute path that exists now. */
void kfd_proc_list(void (*fn)(void *ctx, const char *name), void *ctx);

#endif
