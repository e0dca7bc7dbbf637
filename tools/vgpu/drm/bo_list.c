/* Lists of buffers that a submission uses (amdgpu_bo_list.c). */
#include <amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drm_file.h"
#include "gem.h"
#include "kfd/vkfd.h"
#include "submit.h"

#define MAX_ENTRIES (128u * 1024) /* AMDGPU_BO_LIST_MAX_ENTRIES */

static uint64_t alive;

uint64_t drm_lists_alive(void)
{
	return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

void drm_lists_after_fork(void)
{
	alive = 0;
}

void drm_list_put(struct bo_list *l)
{
	if (!l || --l->refs)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		gem_unref(l->gem[i]);
	free(l);
	__atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
}

struct bo_list *drm_list_get(struct drm_file *f, uint32_t handle)
{
	struct bo_list *l = handle ? idr_find(&f->sub.lists, handle - 1) : NULL;

	if (l)
		l->refs++;
	return l;
}

void drm_lists_close(struct drm_file *f)
{
	for (uint32_t i = 0; i < f->sub.lists.n; i++)
		drm_list_put(f->sub.lists.slot[i]);
	free(f->sub.lists.slot);
	memset(&f->sub.lists, 0, sizeof(f->sub.lists));
}

/* Entries of another size than ours are taken as far as both have them. */
static int read_entries(const struct drm_amdgpu_bo_list_in *in,
			struct drm_amdgpu_bo_list_entry **out)
{
	const size_t ours = sizeof(**out), theirs = in->bo_info_size;
	struct drm_amdgpu_bo_list_entry *e;
	int err = 0;

	if (in->bo_number > MAX_ENTRIES)
		return -EINVAL;
	e = calloc(in->bo_number + 1, ours);
	if (!e)
		return -ENOMEM;
	if (theirs == ours && in->bo_number)
		err = user_read(e, in->bo_info_ptr, in->bo_number * ours);
	for (uint32_t i = 0; theirs != ours && i < in->bo_number && !err; i++)
		err = user_read(&e[i], in->bo_info_ptr + i * theirs, theirs < ours ? theirs : ours);
	if (err)
		free(e);
	else
		*out = e;
	return err;
}

/* Priorities order what TTM moves first, which has nothing to order here. */
static int make(struct drm_file *f, const struct drm_amdgpu_bo_list_entry *e, uint32_t n,
		struct bo_list **out)
{
	struct bo_list *l = calloc(1, sizeof(*l) + n * sizeof(l->gem[0]));
	int err = 0;

	if (!l)
		return -ENOMEM;
	l->refs = 1;
	pthread_mutex_lock(&f->lock);
	for (; l->n < n && !err; l->n += !err) {
		struct gem *g = drm_gem_find(f, e[l->n].bo_handle);

		err = g ? 0 : -ENOENT;
		if (g) {
			gem_ref(g);
			l->gem[l->n] = g;
		}
	}
	pthread_mutex_unlock(&f->lock);
	__atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
	if (err)
		drm_list_put(l);
	else
		*out = l;
	return err;
}

int drm_list_new(struct drm_file *f, const struct drm_amdgpu_bo_list_in *in, struct bo_list **out)
{
	struct drm_amdgpu_bo_list_entry *e;
	int err = read_entries(in, &e);

	if (err)
		return err;
	err = make(f, e, in->bo_number, out);
	free(e);
	return err;
}

static int number(struct drm_file *f, struct bo_list *l, uint32_t *handle)
{
	int id = idr_alloc(&f->sub.lists, l, INT32_MAX);

	if (id >= 0)
		*handle = (uint32_t)id + 1;
	return id < 0 ? id : 0;
}

/* *l becomes the list that was there. */
static int replace(struct drm_file *f, struct bo_list **l, uint32_t handle)
{
	struct bo_list *old = handle ? idr_find(&f->sub.lists, handle - 1) : NULL;

	if (!old)
		return -ENOENT;
	f->sub.lists.slot[handle - 1] = *l;
	*l = old;
	return 0;
}

long drm_bo_list_ioctl(struct drm_file *f, union drm_amdgpu_bo_list *a)
{
	uint32_t op = a->in.operation, handle = a->in.list_handle;
	struct drm_amdgpu_bo_list_entry *e;
	struct bo_list *l = NULL;
	/* The entries are read whatever is to be done with them. */
	int err = read_entries(&a->in, &e);

	if (err)
		return err;
	if (op == AMDGPU_BO_LIST_OP_CREATE || op == AMDGPU_BO_LIST_OP_UPDATE)
		err = make(f, e, a->in.bo_number, &l);
	else if (op != AMDGPU_BO_LIST_OP_DESTROY)
		err = -EINVAL;
	free(e);
	if (err)
		return err;
	drm_lock();
	if (op == AMDGPU_BO_LIST_OP_CREATE) {
		err = number(f, l, &handle);
		l = err ? l : NULL;
	} else if (op == AMDGPU_BO_LIST_OP_UPDATE) {
		err = replace(f, &l, handle);
	} else { /* one that is not there is gone, too */
		l = handle ? idr_find(&f->sub.lists, handle - 1) : NULL;
		if (l)
			idr_remove(&f->sub.lists, handle - 1);
		handle = 0;
	}
	drm_list_put(l);
	drm_unlock();
	if (err)
		return err;
	memset(a, 0, sizeof(*a));
	a->out.list_handle = handle;
	return 0;
}
