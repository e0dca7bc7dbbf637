/* The render node: opens, GEM ioctls, mmap. */
#include "drm_file.h"

#include <amdgpu_drm.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carry.h"
#include "core.h"
#include "gem.h"
#include "info.h"
#include "kfd/vkfd.h"
#include "share/share.h"
#include "submit.h"
#include "syncobj.h"

#ifndef AMDGPU_GEM_CREATE_GFX12_DCC
#define AMDGPU_GEM_CREATE_GFX12_DCC (1 << 16)
#endif
#ifndef AMDGPU_GEM_CREATE_DISCARDABLE
#define AMDGPU_GEM_CREATE_DISCARDABLE (1 << 12)
#endif

static uint64_t last_client;
static uint32_t last_pasid = 0x8100;

int drm_open(bool primary, struct drm_file **out)
{
	struct drm_file *f;
	int err = vgpu_device_init();

	if (err)
		return err;
	if (!vgpu_config.gpus)
		return -ENODEV;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	err = vm_create(&f->vm);
	if (!err) {
		/* Every address space has the driver's 64-bit sequence numbers in it
		 * (amdgpu_kms.c:amdgpu_driver_open_kms, amdgpu_seq64_map). */
		err = vm_tables_reserve(f->vm, VM_RESERVED_SEQ64, VM_RESERVED_SEQ64_BYTES);
		if (err)
			vm_destroy(f->vm);
	}
	if (err) {
		free(f);
		return err;
	}
	pthread_mutex_init(&f->lock, NULL);
	f->refs = 1;
	f->mm = vgpu_mm_generation();
	f->primary = primary;
	f->client_id = __atomic_add_fetch(&last_client, 1, __ATOMIC_RELAXED);
	f->pasid = __atomic_add_fetch(&last_pasid, 1, __ATOMIC_RELAXED);
	*out = f;
	return 0;
}

/* Ids that no other process's files have. */
void drm_name(struct drm_file *f, uint64_t number)
{
	f->shared = number;
	f->client_id = number;
	f->pasid = 0x8100 + (uint32_t)number;
}

int drm_open_shared(uint64_t number, bool compute, struct drm_file **out)
{
	int err = drm_open(false, out);

	if (err)
		return err;
	drm_name(*out, number);
	(*out)->compute = compute;
	return 0;
}

void drm_inherited(struct drm_file *f)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t lock_mm;

	if (__builtin_expect(__atomic_load_n(&f->mm, __ATOMIC_ACQUIRE) == vgpu_mm_generation(), 1))
		return;
	if (share_on())
		return; /* the daemon sees to files that have several holders */
	/* Whoever held it is not in this copy of the memory. */
	if (lock_mm != vgpu_mm_generation()) {
		pthread_mutex_init(&lock, NULL);
		lock_mm = vgpu_mm_generation();
	}
	pthread_mutex_lock(&lock);
	if (f->mm == vgpu_mm_generation() || vgpu_device_init() || vm_create(&f->vm))
		goto out;
	pthread_mutex_init(&f->lock, NULL);
	f->vas = NULL;
	/* Contexts and what goes with them stay the parent's. */
	memset(&f->sub, 0, sizeof(f->sub));
	for (uint32_t i = 0; i < f->handles.n; i++) {
		struct gem *old = f->handles.slot[i], *g = old ? gem_inherited(old) : NULL;

		if (!old)
			continue;
		f->handles.slot[i] = g;
		if (!g)
			f->handles.used--;
		else if (gem_allow(g, f))
			gem_unref(g);
		else
			vgpu_count_gem_handle(1);
	}
	__atomic_store_n(&f->mm, vgpu_mm_generation(), __ATOMIC_RELEASE);
out:
	pthread_mutex_unlock(&lock);
}

void drm_carry_out(struct carry *c, const struct drm_file *f)
{
	uint32_t n = 0;

	carry_put(c, f->client_id);
	carry_put(c, f->pasid);
	carry_put(c, f->primary);
	carry_put(c, f->compute);
	carry_put(c, f->handles.used);
	for (uint32_t i = 0; i < f->handles.n; i++) {
		if (!f->handles.slot[i])
			continue;
		carry_put(c, i);
		carry_put(c, carry_number(c, CARRY_GEM, f->handles.slot[i]));
	}
	for (const struct gem_va *v = f->vas; v; v = v->next)
		n++;
	carry_put(c, n);
	for (const struct gem_va *v = f->vas; v; v = v->next) {
		carry_put(c, v->va);
		carry_put(c, v->size);
		carry_put(c, v->off);
		carry_put(c, v->perm);
		carry_put(c, v->mtype);
		carry_put(c, carry_number(c, CARRY_GEM, v->gem));
	}
}

static void va_carry_in(struct drm_file *f, struct carry *c)
{
	struct gem_va in = {.va = carry_get(c)}, *v;

	in.size = carry_get(c);
	in.off = carry_get(c);
	in.perm = (unsigned)carry_get(c);
	in.mtype = (enum vm_mtype)carry_get(c);
	in.gem = carry_item(c, CARRY_GEM, carry_get(c));
	v = in.gem ? malloc(sizeof(*v)) : NULL;
	if (!v || vm_map(f->vm, gva(in.va), in.size, in.gem->bo, in.off, in.perm, in.mtype)) {
		free(v);
		return;
	}
	*v = in;
	gem_ref(v->gem);
	v->next = f->vas;
	f->vas = v;
}

struct drm_file *drm_carry_in(struct carry *c)
{
	uint64_t client = carry_get(c), n;
	uint32_t pasid = (uint32_t)carry_get(c);
	bool primary = carry_get(c) != 0;
	struct drm_file *f;

	if (drm_open(primary, &f))
		return NULL;
	f->client_id = client;
	f->pasid = pasid;
	f->compute = carry_get(c) != 0;
	for (n = carry_get(c); n && !c->bad; n--) {
		uint32_t at = (uint32_t)carry_get(c);
		struct gem *g = carry_item(c, CARRY_GEM, carry_get(c));

		if (!g || gem_allow(g, f))
			continue;
		if (idr_set(&f->handles, g, at)) {
			gem_revoke(g, f);
			continue;
		}
		gem_ref(g);
		vgpu_count_gem_handle(1);
	}
	for (n = carry_get(c); n && !c->bad; n--)
		va_carry_in(f, c);
	return f;
}

void drm_get(struct drm_file *f)
{
	__atomic_fetch_add(&f->refs, 1, __ATOMIC_RELAXED);
}

/* This process's side of a handle. */
static void handle_drop(struct drm_file *f, uint32_t handle)
{
	struct gem *g = idr_find(&f->handles, handle - 1);

	idr_remove(&f->handles, handle - 1);
	vgpu_count_gem_handle(-1);
	gem_revoke(g, f);
	gem_unref(g);
}

static void handle_remove(struct drm_file *f, uint32_t handle)
{
	uint64_t a[SHARE_ARGS] = {f->shared, handle};

	if (f->shared)
		share_call(SHARE_HANDLE_PUT, a);
	handle_drop(f, handle);
}

void drm_put(struct drm_file *f)
{
	if (__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL))
		return;
	/* Inherited over a fork: what it holds is the parent's. */
	if (f->mm != vgpu_mm_generation())
		return;
	drm_submissions_close(f);
	while (f->vas)
		drm_va_remove(f, f->vas);
	for (uint32_t i = 0; i < f->handles.n; i++) {
		/* A shared file's handles end with its last holder, at the daemon. */
		if (f->handles.slot[i])
			handle_drop(f, i + 1);
	}
	free(f->handles.slot);
	vm_destroy(f->vm);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- GEM ------------------------------------------------------------------ */

/* A file that another process has too: its handles are what the daemon says. */
static struct gem *lookup_shared(struct drm_file *f, uint32_t handle)
{
	struct gem *local = idr_find(&f->handles, handle - 1), *g;
	uint64_t a[SHARE_ARGS] = {f->shared, handle};
	struct share_bo b;
	size_t n = sizeof(b);

	if (share_call_data(SHARE_HANDLE_FIND, a, -1, NULL, 0, &b, &n)) {
		if (local && !share_lost())
			handle_drop(f, handle);
		return NULL;
	}
	g = gem_import(&b);
	if (g == local) {
		if (g)
			gem_unref(g);
		return g;
	}
	if (local)
		handle_drop(f, handle);
	if (g && (gem_allow(g, f) || idr_set(&f->handles, g, handle - 1))) {
		gem_unref(g);
		return NULL;
	}
	if (g)
		vgpu_count_gem_handle(1);
	return g;
}

struct gem *drm_gem_find(struct drm_file *f, uint32_t handle)
{
	if (!handle)
		return NULL;
	if (share_active() && f->shared && share_page->files_shared)
		return lookup_shared(f, handle);
	return idr_find(&f->handles, handle - 1);
}

/* A new handle owns the reference it is given. */
static int handle_create(struct drm_file *f, struct gem *g, uint32_t *handle)
{
	int err = gem_allow(g, f), id;

	if (err)
		return err;
	if (f->shared) {
		uint64_t a[SHARE_ARGS] = {f->shared, g->bo->shared};

		id = share_call(SHARE_HANDLE_ADD, a);
		if (!id && idr_find(&f->handles, a[0] - 1))
			handle_drop(f, (uint32_t)a[0]); /* another process closed it */
		if (!id)
			id = idr_set(&f->handles, g, (uint32_t)a[0] - 1);
		if (!id)
			id = (int)a[0] - 1;
	} else {
		id = idr_alloc(&f->handles, g, INT32_MAX);
	}
	if (id < 0) {
		gem_revoke(g, f);
		return id;
	}
	*handle = (uint32_t)id + 1;
	vgpu_count_gem_handle(1);
	return 0;
}

static long gem_create_ioctl(struct drm_file *f, union drm_amdgpu_gem_create *a)
{
	const uint64_t special =
		AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA;
	const uint64_t normal =
		AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
	const uint64_t known = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED |
			       AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_CPU_GTT_USWC |
			       AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID |
			       AMDGPU_GEM_CREATE_EXPLICIT_SYNC | AMDGPU_GEM_CREATE_GFX12_DCC |
			       AMDGPU_GEM_CREATE_DISCARDABLE;
	uint64_t size = (a->in.bo_size + 4095) & ~4095ull, rare = a->in.domains & special;
	enum gem_domain domain;
	uint32_t handle;
	struct gem *g;
	int err;

	/* ENCRYPTED is known, too, and refused where memory is not encrypted. */
	if (a->in.domain_flags & ~known)
		return -EINVAL;
	/* No domain at all is system memory; the rare ones come alone, and to no VM by themselves. */
	if (a->in.domains & ~(special | normal))
		return -EINVAL;
	if (rare && (a->in.domains & normal || rare & (rare - 1) ||
		     a->in.domain_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return -EINVAL;
	if (!size || size < a->in.bo_size)
		return -EINVAL;
	domain = a->in.domains & AMDGPU_GEM_DOMAIN_VRAM ? GEM_VRAM : GEM_GTT;
	err = gem_create(domain, size, &g);
	/* VRAM that is full falls back to GTT when that is allowed too. */
	if (err && domain == GEM_VRAM)
		err = gem_create(GEM_GTT, size, &g);
	if (err)
		return err;
	g->cpu_access = a->in.domain_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
	g->by_ioctl = true;
	g->create_flags = (uint32_t)a->in.domain_flags | AMDGPU_GEM_CREATE_VRAM_CLEARED |
			  (rare ? AMDGPU_GEM_CREATE_NO_CPU_ACCESS : 0);
	g->create_domains = (uint32_t)a->in.domains;
	g->alignment = (a->in.alignment + 4095) & ~4095ull;
	gem_publish(g);
	pthread_mutex_lock(&f->lock);
	err = handle_create(f, g, &handle);
	pthread_mutex_unlock(&f->lock);
	if (err) {
		gem_unref(g);
		return err;
	}
	memset(a, 0, sizeof(*a));
	a->out.handle = handle;
	return 0;
}

static long prime_export(struct drm_file *f, struct drm_prime_handle *a)
{
	struct gem *g;
	int fd = -ENOENT;

	pthread_mutex_lock(&f->lock);
	g = drm_gem_find(f, a->handle);
	if (g)
		gem_ref(g);
	pthread_mutex_unlock(&f->lock);
	if (!g)
		return fd;
	if (a->flags & ~(DRM_CLOEXEC | DRM_RDWR))
		fd = -EINVAL;
	else
		fd = g->domain == GEM_PREEMPT ? -EPERM
					      : vgpu_files.install_dmabuf(g, (int)a->flags);
	gem_unref(g);
	if (fd < 0)
		return fd;
	a->fd = fd;
	return 0;
}

static long prime_import(struct drm_file *f, struct drm_prime_handle *a)
{
	struct gem *g = vgpu_files.dmabuf_gem(a->fd);
	int err = 0;

	if (!g)
		return vgpu_files.fd_valid(a->fd) ? -EINVAL : -EBADF;
	pthread_mutex_lock(&f->lock);
	/* The same object imported again is the same handle. */
	for (uint32_t i = 0; i < f->handles.n; i++) {
		if (f->handles.slot[i] == g) {
			a->handle = i + 1;
			goto out;
		}
	}
	err = handle_create(f, g, &a->handle);
	if (!err)
		g = NULL;
out:
	pthread_mutex_unlock(&f->lock);
	if (g)
		gem_unref(g);
	return err;
}

static long metadata_ioctl(struct drm_file *f, struct drm_amdgpu_gem_metadata *a)
{
	struct gem *g = drm_gem_find(f, a->handle);

	if (!g)
		return -ENOENT;
	if (a->op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
		gem_refresh(g);
		a->data.flags = g->metadata_flags;
		a->data.tiling_info = g->tiling;
		a->data.data_size_bytes = g->metadata_size;
		memcpy(a->data.data, g->metadata, g->metadata_size);
		return 0;
	}
	if (a->op != AMDGPU_GEM_METADATA_OP_SET_METADATA)
		return 0; /* nothing, and no error either */
	if (a->data.data_size_bytes > sizeof(g->metadata))
		return -EINVAL;
	g->tiling = a->data.tiling_info;
	g->metadata_size = a->data.data_size_bytes;
	if (g->metadata_size) /* the flags are those of metadata */
		g->metadata_flags = a->data.flags;
	memcpy(g->metadata, a->data.data, g->metadata_size);
	gem_publish(g);
	return 0;
}

static long gem_op_ioctl(struct drm_file *f, struct drm_amdgpu_gem_op *a)
{
	struct gem *g = drm_gem_find(f, a->handle);
	struct drm_amdgpu_gem_create_in info;

	if (!g)
		return -ENOENT;
	if (a->op == AMDGPU_GEM_OP_SET_PLACEMENT) {
		if (g->domain == GEM_PREEMPT)
			return -EPERM;
		g->create_domains = a->value & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT |
						AMDGPU_GEM_DOMAIN_CPU);
		return 0;
	}
	if (a->op != AMDGPU_GEM_OP_GET_GEM_CREATE_INFO)
		return -EINVAL;
	memset(&info, 0, sizeof(info));
	info.bo_size = g->size;
	info.alignment = g->by_ioctl ? g->alignment : 4096;
	info.domains = g->by_ioctl ? g->create_domains : g->domain;
	info.domain_flags = g->by_ioctl     ? g->create_flags
			    : g->cpu_access ? AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED
					    : 0;
	return user_write(a->value, &info, sizeof(info));
}

/* Waits for the jobs that use it. */
static long wait_idle(struct drm_file *f, union drm_amdgpu_gem_wait_idle *a)
{
	uint64_t deadline = drm_deadline(a->in.timeout, 0);
	bool busy = false;
	struct gem *g;
	int err = 0;

	pthread_mutex_lock(&f->lock);
	g = drm_gem_find(f, a->in.handle);
	if (g)
		gem_ref(g);
	pthread_mutex_unlock(&f->lock);
	if (!g)
		return -ENOENT;
	drm_lock();
	while (!err && (busy = gem_busy(g)))
		err = drm_sleep(deadline);
	drm_unlock();
	gem_unref(g);
	if (err && err != -ETIME)
		return err;
	memset(a, 0, sizeof(*a));
	a->out.status = busy; /* no domain */
	return 0;
}

/* amdgpu_vm_ioctl: a VMID of one's own, of which nothing is seen. */
static long vm_ioctl(struct drm_file *f, const union drm_amdgpu_vm *a)
{
	if (a->in.flags)
		return -EINVAL;
	if (a->in.op != AMDGPU_VM_OP_RESERVE_VMID && a->in.op != AMDGPU_VM_OP_UNRESERVE_VMID)
		return -EINVAL;
	f->vmid_reserved = a->in.op == AMDGPU_VM_OP_RESERVE_VMID;
	return 0;
}

/* ---- dispatch ------------------------------------------------------------- */

static int put_string(uint64_t to, __kernel_size_t *len, const char *s)
{
	__kernel_size_t n = strlen(s), room = *len;

	*len = n;
	return to && room ? user_write(to, s, n < room ? n : room) : 0;
}

static long version_ioctl(struct drm_version *v)
{
	v->version_major = 3;
	v->version_minor = (int)vgpu_kernel()->drm_minor;
	v->version_patchlevel = (int)vgpu_kernel()->drm_patch;
	if (put_string((uintptr_t)v->name, &v->name_len, "amdgpu") ||
	    put_string((uintptr_t)v->date, &v->date_len, "20150101") ||
	    put_string((uintptr_t)v->desc, &v->desc_len, "AMD GPU"))
		return -EFAULT;
	return 0;
}

static long dispatch(struct drm_file *f, unsigned nr, void *a)
{
	long r;

	switch (nr) {
	case 0x00:
		return version_ioctl(a);
	case 0x05: { /* GET_CLIENT: only the first one is ever answered */
		struct drm_client *c = a;

		if (c->idx)
			return -EINVAL;
		c->auth = 1;
		c->pid = (unsigned long)kfd_process_pid();
		c->uid = 0;
		return 0;
	}
	case 0x09: { /* GEM_CLOSE */
		uint32_t handle = ((struct drm_gem_close *)a)->handle;

		pthread_mutex_lock(&f->lock);
		r = drm_gem_find(f, handle) ? 0 : -EINVAL;
		if (!r)
			handle_remove(f, handle);
		pthread_mutex_unlock(&f->lock);
		return r;
	}
	case 0x0c:
		return drm_core_cap(a);
	case 0x2d:
		return prime_export(f, a);
	case 0x2e:
		return prime_import(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE:
		return gem_create_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP: {
		union drm_amdgpu_gem_mmap *m = a;
		struct gem *g;

		pthread_mutex_lock(&f->lock);
		g = drm_gem_find(f, m->in.handle);
		r = !g ? -ENOENT
		    : g->domain == GEM_PREEMPT || g->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS
			    ? -EPERM
			    : 0;
		if (!r)
			m->out.addr_ptr = gem_mmap_offset(g);
		pthread_mutex_unlock(&f->lock);
		return r;
	}
	case DRM_COMMAND_BASE + DRM_AMDGPU_INFO:
		return drm_info_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA:
		pthread_mutex_lock(&f->lock);
		r = metadata_ioctl(f, a);
		pthread_mutex_unlock(&f->lock);
		return r;
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_VA:
		pthread_mutex_lock(&f->lock);
		r = drm_va_ioctl(f, a, drm_gem_find(f, ((struct drm_amdgpu_gem_va *)a)->handle));
		pthread_mutex_unlock(&f->lock);
		return r;
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP:
		pthread_mutex_lock(&f->lock);
		r = gem_op_ioctl(f, a);
		pthread_mutex_unlock(&f->lock);
		return r;
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE:
		return wait_idle(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_CTX:
		return drm_ctx_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_BO_LIST:
		return drm_bo_list_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_CS:
		return drm_cs_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS:
		return drm_wait_cs_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_FENCES:
		return drm_wait_fences_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_FENCE_TO_HANDLE:
		return drm_fence_to_handle_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_VM:
		return vm_ioctl(f, a);
	case DRM_COMMAND_BASE + DRM_AMDGPU_SCHED:
		return -EACCES; /* for the display's master, who is nobody here */
	}
	if (drm_syncobj_size(nr))
		return drm_syncobj_ioctl(f, nr, a);
	return -EINVAL;
}

/* Sizes as the driver has them; 0: no such ioctl here. */
static unsigned ksize(unsigned nr)
{
	switch (nr) {
	case 0x00:
		return sizeof(struct drm_version);
	case 0x05:
		return sizeof(struct drm_client);
	case 0x09:
		return sizeof(struct drm_gem_close);
	case 0x0c:
		return sizeof(struct drm_get_cap);
	case 0x2d:
	case 0x2e:
		return sizeof(struct drm_prime_handle);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE:
		return sizeof(union drm_amdgpu_gem_create);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP:
		return sizeof(union drm_amdgpu_gem_mmap);
	case DRM_COMMAND_BASE + DRM_AMDGPU_INFO:
		return sizeof(struct drm_amdgpu_info);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA:
		return sizeof(struct drm_amdgpu_gem_metadata);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_VA:
		return sizeof(struct drm_amdgpu_gem_va);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP:
		return sizeof(struct drm_amdgpu_gem_op);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE:
		return sizeof(union drm_amdgpu_gem_wait_idle);
	case DRM_COMMAND_BASE + DRM_AMDGPU_CTX:
		return sizeof(union drm_amdgpu_ctx);
	case DRM_COMMAND_BASE + DRM_AMDGPU_BO_LIST:
		return sizeof(union drm_amdgpu_bo_list);
	case DRM_COMMAND_BASE + DRM_AMDGPU_CS:
		return sizeof(union drm_amdgpu_cs);
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS:
		return sizeof(union drm_amdgpu_wait_cs);
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_FENCES:
		return sizeof(union drm_amdgpu_wait_fences);
	case DRM_COMMAND_BASE + DRM_AMDGPU_FENCE_TO_HANDLE:
		return sizeof(union drm_amdgpu_fence_to_handle);
	case DRM_COMMAND_BASE + DRM_AMDGPU_VM:
		return sizeof(union drm_amdgpu_vm);
	case DRM_COMMAND_BASE + DRM_AMDGPU_SCHED:
		return sizeof(union drm_amdgpu_sched);
	}
	return drm_syncobj_size(nr);
}

bool drm_has(unsigned nr)
{
	return ksize(nr) != 0;
}

/* drm_ioctl(): the type letter is checked, sizes are extended and cut, and what the caller's
 * direction bits say decides the copies. */
long drm_ioctl(struct drm_file *f, unsigned cmd, void *arg)
{
	unsigned nr = _IOC_NR(cmd), usize = _IOC_SIZE(cmd), n = ksize(nr);
	_Alignas(16) char buf[16384];
	long r;

	if (_IOC_TYPE(cmd) != DRM_IOCTL_BASE)
		return -ENOTTY;
	/* As drm_dev_enter() has it once the device is gone. */
	if (share_active() && share_lost())
		return -ENODEV;
	if (!n && (f->primary || !drm_core_primary_only(nr)))
		return -EINVAL;
	memset(buf, 0, n > usize ? n : usize);
	if (_IOC_DIR(cmd) & _IOC_WRITE) {
		r = user_read(buf, (uintptr_t)arg, usize);
		if (r)
			return r;
	}
	r = !f->primary && drm_core_primary_only(nr) ? -EACCES : dispatch(f, nr, buf);
	if ((_IOC_DIR(cmd) & _IOC_READ) && user_write((uintptr_t)arg, buf, usize < n ? usize : n))
		r = -EFAULT;
	return r;
}

int drm_mmap(struct drm_file *f, uint64_t len, uint64_t off, struct vma_backing *out)
{
	uint64_t start;
	struct gem *g = gem_by_offset(off, &start);
	int err = 0;

	len = (len + 4095) & ~4095ull;
	if (!g)
		return gem_elsewhere(off) ? -EACCES : -EINVAL;
	if (len > g->size || off - start > g->size - len)
		err = -EINVAL;
	else if (!gem_allowed(g, f))
		err = -EACCES;
	else
		err = gem_mmap(g, len, off - start, out);
	gem_unref(g);
	return err;
}

int drm_fdinfo(struct drm_file *f, char *buf, size_t n)
{
	struct {
		uint64_t gtt_used, vram_used;
	} s = {0};
	int at;

	if (f->compute)
		kfd_vm_memory(f, &s.gtt_used, &s.vram_used);
	for (struct gem_va *v = f->vas; v; v = v->next)
		*(v->gem->domain == GEM_VRAM ? &s.vram_used : &s.gtt_used) += v->gem->size;
	s.vram_used += vm_tables_of(f->vm);
	at = snprintf(buf, n,
		      "drm-driver:\tamdgpu\ndrm-client-id:\t%llu\n"
		      "drm-pdev:\t0000:%02x:00.0\npasid:\t%u\n",
		      (unsigned long long)f->client_id, vgpu_config.pci_bus, f->pasid);
	if (vgpu_kernel()->fdinfo_regions) {
		static const char *const regions[] = {"cpu", "gtt", "vram",     "gds",
						      "gws", "oa",  "doorbell", "mmioremap"};

		for (unsigned i = 0; i < sizeof(regions) / sizeof(regions[0]); i++) {
			uint64_t v = i == 1 ? s.gtt_used : i == 2 ? s.vram_used : 0;
			const char *unit = "";

			if (v && !(v & ((1u << 20) - 1))) {
				v >>= 20;
				unit = " MiB";
			} else if (v && !(v & 1023)) {
				v >>= 10;
				unit = " KiB";
			}
			at += snprintf(buf + at, n - (size_t)at,
				       "drm-total-%s:\t%llu%s\ndrm-shared-%s:\t0\n"
				       "drm-resident-%s:\t%llu%s\ndrm-purgeable-%s:\t0\n",
				       regions[i], (unsigned long long)v, unit, regions[i],
				       regions[i], (unsigned long long)v, unit, regions[i]);
		}
	}
#define K(x) (unsigned long long)((x) >> 10)
	at += snprintf(buf + at, n - (size_t)at,
		       "drm-memory-vram:\t%llu KiB\ndrm-memory-gtt: \t%llu KiB\n"
		       "drm-memory-cpu: \t0 KiB\n",
		       K(s.vram_used), K(s.gtt_used));
	if (vgpu_kernel()->fdinfo_regions)
		at += snprintf(buf + at, n - (size_t)at,
			       "amd-evicted-vram:\t0 KiB\namd-requested-vram:\t%llu KiB\n"
			       "amd-requested-gtt:\t%llu KiB\n",
			       K(s.vram_used), K(s.gtt_used));
	else
		at += snprintf(buf + at, n - (size_t)at,
			       "amd-memory-visible-vram:\t%llu KiB\namd-evicted-vram:\t0 KiB\n"
			       "amd-evicted-visible-vram:\t0 KiB\namd-requested-vram:\t%llu KiB\n"
			       "amd-requested-visible-vram:\t0 KiB\namd-requested-gtt:\t%llu KiB\n"
			       "drm-shared-vram:\t0 KiB\ndrm-shared-gtt:\t0 KiB\n"
			       "drm-shared-cpu:\t0 KiB\n",
			       K(s.vram_used), K(s.vram_used), K(s.gtt_used));
#undef K
	return at + drm_ctxs_fdinfo(f, buf + at, n - (size_t)at);
}
