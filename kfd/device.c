/* Opening and closing: the node, the topology, the VM, the apertures. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kfd/kfd_internal.h"

#define DEVICE_NODE "/dev/kfd"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kfd_process_state process_state;

struct kfd_process_state *kfd_process_get(void)
{
	struct kfd_process_state *s = &process_state;

	pthread_mutex_lock(&process_lock);
	if (s->pid != getpid()) {
		/* After fork the parent's VM and page are of no use here (kfd-abi: EBADF), and
		 * libdrm would hand out the parent's file again as long as it holds a reference. */
		if (s->drm)
			amdgpu_device_deinitialize(s->drm);
		memset(s, 0, sizeof(*s));
		s->pid = getpid();
	}
	return s;
}

void kfd_process_put(void)
{
	pthread_mutex_unlock(&process_lock);
}

static bool in_group_of(const struct stat *st)
{
	gid_t groups[256];
	int n = getgroups(256, groups);

	if (getegid() == st->st_gid)
		return true;
	for (int i = 0; i < n; i++)
		if (groups[i] == st->st_gid)
			return true;
	return false;
}

/* One sentence that says what is missing. */
static void explain_open(const char *path, int err, char *why, size_t len)
{
	struct stat st;

	switch (err) {
	case ENOENT:
		if (strcmp(path, DEVICE_NODE) != 0)
			/* Somebody's own idea: no fault of the machine's. */
			snprintf(why, len, "no compute device: %s does not exist", path);
		else if (access("/sys/module/amdgpu", F_OK) != 0)
			snprintf(why, len,
				 "no compute device: %s does not exist and the amdgpu module is "
				 "not loaded",
				 path);
		else if (access("/sys/class/kfd", F_OK) != 0)
			snprintf(why, len,
				 "no compute device: %s does not exist; amdgpu is loaded but "
				 "registered no "
				 "KFD (kernel built without CONFIG_HSA_AMD, or no supported GPU)",
				 path);
		else
			snprintf(why, len,
				 "no compute device: %s does not exist although the kernel has KFD "
				 "(udev made no node, or it is not passed into this container)",
				 path);
		break;
	case EACCES:
	case EPERM:
		if (stat(path, &st) == 0 && !in_group_of(&st) && (st.st_mode & 060) == 060)
			snprintf(why, len,
				 "no permission to open %s: it is for group %u, of which this user "
				 "is not a "
				 "member (usually: usermod -aG render USER, then log in again)",
				 path, st.st_gid);
		else
			snprintf(why, len,
				 "no permission to open %s (mode, device cgroup, or a 32-bit "
				 "process)",
				 path);
		break;
	case EINVAL:
		snprintf(why, len,
			 "the kernel refuses %s: no GPU is visible to this process, or a GPU reset "
			 "or "
			 "suspend is in progress (kfd_chardev.c:kfd_open)",
			 path);
		break;
	case ENODEV:
	case ENXIO:
		snprintf(why, len,
			 "%s exists but no driver answers it: the amdgpu module is not loaded",
			 path);
		break;
	default:
		snprintf(why, len, "cannot open %s: %s", path, strerror(err));
	}
}

int kfd_version_get(int fd, uint32_t *major, uint32_t *minor)
{
	struct kfd_ioctl_get_version_args a = {0};
	int rc = kfd_call(fd, NULL, AMDKFD_IOC_GET_VERSION, &a);

	if (rc < 0)
		return rc;
	*major = a.major_version;
	*minor = a.minor_version;
	return 0;
}

int kfd_apertures_get(int fd, struct kfd_process_device_apertures *out, uint32_t n)
{
	struct kfd_ioctl_get_process_apertures_new_args a = {0};
	struct kfd_process_device_apertures *buf;
	uint32_t count;
	int rc = kfd_call(fd, NULL, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a);

	if (rc < 0)
		return rc;
	count = a.num_of_nodes;
	if (!count || !n)
		return (int)count;
	buf = calloc(count, sizeof(*buf));
	if (!buf)
		return -ENOMEM;
	a.kfd_process_device_apertures_ptr = (uintptr_t)buf;
	rc = kfd_call(fd, NULL, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a);
	if (rc == 0) {
		memcpy(out, buf, (n < a.num_of_nodes ? n : a.num_of_nodes) * sizeof(*out));
		rc = (int)a.num_of_nodes;
	}
	free(buf);
	return rc;
}

int kfd_vm_acquire(int fd, int render_fd, uint32_t gpu_id)
{
	struct kfd_ioctl_acquire_vm_args a = {.drm_fd = (uint32_t)render_fd, .gpu_id = gpu_id};
	struct kfd_facts f = {.gpu_id = gpu_id};

	return kfd_call(fd, &f, AMDKFD_IOC_ACQUIRE_VM, &a);
}

static const struct topology_node *find_node(const struct topology *t, uint32_t gpu_id)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->nodes[i].gpu_id && (!gpu_id || t->nodes[i].gpu_id == gpu_id))
			return &t->nodes[i];
	return NULL;
}

static int find_apertures(struct kfd *k, char *why, size_t len)
{
	struct kfd_process_device_apertures a[TOPOLOGY_MAX_NODES] = {0};
	int n = kfd_apertures_get(k->fd, a, TOPOLOGY_MAX_NODES);

	if (n < 0) {
		snprintf(why, len, "%s", kfd_reason());
		return n;
	}
	for (int i = 0; i < n && i < TOPOLOGY_MAX_NODES; i++) {
		if (a[i].gpu_id == k->node->gpu_id) {
			k->apertures = a[i];
			return 0;
		}
	}
	snprintf(why, len,
		 "the topology lists GPU %u but the kernel gives this process no apertures for it "
		 "(device cgroup, or the topology directory belongs to another machine)",
		 k->node->gpu_id);
	return -ENODEV;
}

/* The VM of the first file acquired stays the process's for good, so that file is kept too. */
static int bind_vm(struct kfd *k, const char *render, char *why, size_t len)
{
	struct kfd_process_state *s = kfd_process_get();
	amdgpu_device_handle drm = NULL;
	int rc = 0;

	if (s->drm && s->gpu_id != k->node->gpu_id) {
		snprintf(why, len,
			 "this process already uses GPU %u; a second GPU (%u) is not supported",
			 s->gpu_id, k->node->gpu_id);
		rc = -EBUSY;
		goto out;
	}
	if (!s->drm) {
		rc = kfd_drm_open(render, &drm, why, len);
		if (rc < 0)
			goto out;
		rc = kfd_vm_acquire(k->fd, amdgpu_device_get_fd(drm), k->node->gpu_id);
		if (rc < 0) {
			snprintf(why, len, "%s", kfd_reason());
			goto out;
		}
		s->drm = drm;
		s->gpu_id = k->node->gpu_id;
		drm = NULL;
	} else {
		rc = kfd_vm_acquire(k->fd, amdgpu_device_get_fd(s->drm), k->node->gpu_id);
		if (rc < 0) {
			snprintf(why, len, "%s", kfd_reason());
			goto out;
		}
	}
	s->opens++;
	k->drm = s->drm;
	k->render_fd = amdgpu_device_get_fd(s->drm);
out:
	kfd_process_put();
	if (drm)
		amdgpu_device_deinitialize(drm);
	return rc;
}

int kfd_open(const struct kfd_open_opts *opts, struct kfd **out, char *why, size_t why_len)
{
	static const struct kfd_open_opts defaults;
	const struct kfd_open_opts *o = opts ? opts : &defaults;
	const char *path = o->device ? o->device : DEVICE_NODE;
	char render[64];
	uint32_t major, minor;
	struct kfd *k;
	int rc;

	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->fd = open(path, O_RDWR | O_CLOEXEC);
	if (k->fd < 0) {
		rc = -errno;
		explain_open(path, errno, why, why_len);
		goto out;
	}
	rc = kfd_version_get(k->fd, &major, &minor);
	if (rc < 0) {
		snprintf(why, why_len, "%s is not a KFD device: GET_VERSION gives %s", path,
			 strerror(-rc));
		goto out;
	}
	/* 1.17 is Linux 6.12: exact queue buffer sizes, CREATE_QUEUE of 96 bytes, event ages. */
	if (major != 1 || minor < 17) {
		snprintf(why, why_len,
			 "KFD interface %u.%u is too old: 1.17 (Linux 6.12) or newer is needed",
			 major, minor);
		rc = -EPROTONOSUPPORT;
		goto out;
	}
	k->minor = minor;

	rc = topology_read(o->topology, &k->topology, why, why_len);
	if (rc < 0)
		goto out;
	k->node = find_node(&k->topology, o->gpu_id);
	if (!k->node) {
		if (o->gpu_id)
			snprintf(why, why_len, "no GPU with id %u in the topology", o->gpu_id);
		else
			snprintf(why, why_len, "the topology lists no GPU");
		rc = -ENODEV;
		goto out;
	}
	rc = topology_check_gpu(k->node, why, why_len);
	if (rc < 0)
		goto out;

	rc = find_apertures(k, why, why_len);
	if (rc < 0)
		goto out;
	snprintf(render, sizeof(render), "/dev/dri/renderD%u", (unsigned)k->node->drm_render_minor);
	rc = bind_vm(k, o->render ? o->render : render, why, why_len);
	if (rc < 0)
		goto out;

	k->facts = (struct kfd_facts){
		.gpu_id = k->node->gpu_id,
		.minor = minor,
		.bound = true,
		.cwsr_size = k->node->cwsr_size,
		.ctl_stack_size = k->node->ctl_stack_size,
		/* kfd_queue.c: 32 bytes a wave, 32 waves a CU, in 64-byte steps */
		.debug_size = ((uint64_t)topology_cus(k->node) * 32 * 32 + 63) & ~63ull,
		.eop_size = 4096,
		.sdma_engines = (uint32_t)k->node->num_sdma_engines,
		.gpuvm_base = k->apertures.gpuvm_base,
		.gpuvm_limit = k->apertures.gpuvm_limit,
	};
	*out = k;
	return 0;
out:
	if (k->fd >= 0)
		close(k->fd);
	free(k);
	return rc;
}

void kfd_close(struct kfd *k)
{
	struct kfd_process_state *s;

	if (!k)
		return;
	/* The render file stays: the process's VM hangs on it (see kfd.h). Of the event page only
	 * the mappings can be given back. */
	s = kfd_process_get();
	s->opens--;
	if (s->opens == 0)
		kfd_event_page_unmap(k, s);
	kfd_process_put();
	close(k->fd);
	free(k);
}

int kfd_fd(const struct kfd *k)
{
	return k->fd;
}

int kfd_render_fd(const struct kfd *k)
{
	return k->render_fd;
}

uint32_t kfd_gpu_id(const struct kfd *k)
{
	return k->node->gpu_id;
}

uint32_t kfd_minor(const struct kfd *k)
{
	return k->minor;
}

const struct topology_node *kfd_node(const struct kfd *k)
{
	return k->node;
}

const struct topology *kfd_topology(const struct kfd *k)
{
	return &k->topology;
}

const struct kfd_process_device_apertures *kfd_apertures(const struct kfd *k)
{
	return &k->apertures;
}

void kfd_lookup_set(struct kfd *k,
		    bool (*lookup)(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size),
		    const void *ctx)
{
	k->facts.lookup = lookup;
	k->facts.lookup_ctx = ctx;
}

int kfd_memory_policy_set(struct kfd *k, uint32_t default_policy, uint32_t alternate_policy,
			  uint64_t alternate_base, uint64_t alternate_size)
{
	struct kfd_ioctl_set_memory_policy_args a = {
		.alternate_aperture_base = alternate_base,
		.alternate_aperture_size = alternate_size,
		.gpu_id = k->node->gpu_id,
		.default_policy = default_policy,
		.alternate_policy = alternate_policy,
	};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_SET_MEMORY_POLICY, &a);
}

int kfd_scratch_backing_set(struct kfd *k, uint64_t va)
{
	struct kfd_ioctl_set_scratch_backing_va_args a = {.va_addr = va, .gpu_id = k->node->gpu_id};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &a);
}

int kfd_trap_handler_set(struct kfd *k, uint64_t tba, uint64_t tma)
{
	struct kfd_ioctl_set_trap_handler_args a = {
		.tba_addr = tba, .tma_addr = tma, .gpu_id = k->node->gpu_id};

	/* The kernel checks nothing here; a misaligned handler would jump to the wrong place. */
	if (tba & 255) {
		kfd_reason_set(
			"SET_TRAP_HANDLER: tba_addr is 0x%llx; wanted: 256-byte aligned (the "
			"hardware takes the address in units of 256 bytes)",
			(unsigned long long)tba);
		return -EINVAL;
	}
	return tba ? kfd_call(k->fd, &k->facts, AMDKFD_IOC_SET_TRAP_HANDLER, &a)
		   : kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_SET_TRAP_HANDLER, &a);
}

int kfd_runtime_enable(struct kfd *k, bool ttmp_save)
{
	struct kfd_ioctl_runtime_enable_args a = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK |
			     (ttmp_save ? KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK : 0),
	};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_RUNTIME_ENABLE, &a);
}

int kfd_runtime_disable(struct kfd *k)
{
	struct kfd_ioctl_runtime_enable_args a = {.mode_mask = 0};

	return kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_RUNTIME_ENABLE, &a);
}
