/* Open files that clients may hand to each other over sockets.
 *
 * A client gives each such file a descriptor with an inode of its own and says which; who receives
 * one asks by inode. A dma-buf, or an open render node, is one end of a socket pair whose other end is
 * here: when the last copy, in whatever process or on its way through a socket, is closed, this end
 * hangs up. An open /dev/kfd is its opener's, and lives as long.
 */
#include "vgpud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct file *files;
static uint64_t last_number;
static unsigned n_files;

unsigned files_count(void)
{
	return n_files;
}

static struct file *by_inode(uint64_t inode)
{
	struct file *f = files;

	while (f && f->inode != inode)
		f = f->next;
	return f;
}

enum share_kind file_kind(uint64_t inode)
{
	const struct file *f = by_inode(inode);

	return f ? f->kind : SHARE_NO_FILE;
}

bool files_travel(void)
{
	const struct file *f = files;

	while (f && f->watch < 0)
		f = f->next;
	return f;
}

static struct file *by_number(uint64_t number)
{
	struct file *f = files;

	while (f && (f->kind != SHARE_DRM_FILE || f->number != number))
		f = f->next;
	return f;
}

static void bo_file_put(struct bo *bo)
{
	bo->files--;
	bo_release(bo);
}

static void file_free(struct file *f)
{
	struct file **pos = &files;
	struct file_user *u;

	while (*pos != f)
		pos = &(*pos)->next;
	*pos = f->next;
	while ((u = f->users)) {
		f->users = u->next;
		free(u);
	}
	for (uint32_t i = 0; i < f->n_handles; i++) {
		if (f->handles[i])
			bo_file_put(f->handles[i]);
	}
	free(f->handles);
	if (f->kind == SHARE_DMABUF) {
		struct bo *bo = bo_find(f->number);

		if (bo)
			bo_file_put(bo);
	}
	if (f->watch >= 0)
		close(f->watch);
	page->files_shared -= f->shared;
	n_files--;
	free(f);
}

static bool has(const struct file *f, const struct client *c)
{
	for (const struct file_user *u = f->users; u; u = u->next) {
		if (u->client == c)
			return true;
	}
	return false;
}

static int user_add(struct file *f, struct client *c)
{
	struct file_user *u;

	if (has(f, c))
		return 0;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->client = c;
	u->next = f->users;
	f->users = u;
	return 0;
}

static void user_remove(struct file *f, const struct client *c)
{
	struct file_user **pos = &f->users, *u;

	while ((u = *pos) && u->client != c)
		pos = &u->next;
	if (!u)
		return;
	*pos = u->next;
	free(u);
	if (!f->users && f->watch < 0)
		file_free(f);
}

int file_add(struct client *c, struct share_msg *m, int watch)
{
	struct bo *bo = m->a[0] == SHARE_DMABUF ? bo_find(m->a[2]) : NULL;
	struct file *f;
	int err = 0;

	if (m->a[0] < SHARE_KFD_FILE || m->a[0] > SHARE_DMABUF || by_inode(m->a[1]) ||
	    (m->a[0] == SHARE_DMABUF && !bo) || (m->a[0] != SHARE_KFD_FILE && watch < 0))
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->kind = (enum share_kind)m->a[0];
	f->inode = m->a[1];
	f->number = bo ? bo->number : ++last_number;
	f->pid = c->pid;
	f->oflags = (uint32_t)m->a[3];
	f->watch = -1;
	err = bo ? 0 : user_add(f, c);
	if (!err && watch >= 0)
		err = watch_end(watch, f);
	if (err) {
		free(f->users);
		free(f);
		return err;
	}
	f->watch = watch;
	if (bo)
		bo->files++;
	f->next = files;
	files = f;
	n_files++;
	m->a[2] = f->number;
	return 0;
}

static int give_bo(struct client *c, struct bo *bo, struct share_bo *out, size_t *len)
{
	if (!bo_hold(bo, c))
		return -ENOMEM;
	bo_describe(bo, out);
	*len = sizeof(*out);
	return 0;
}

int file_find(struct client *c, struct share_msg *m, struct share_bo *out, size_t *len)
{
	struct file *f = by_inode(m->a[0]);
	int err = 0;

	if (!f)
		return -ENOENT;
	if (f->kind == SHARE_DMABUF) {
		struct bo *bo = bo_find(f->number);

		err = bo ? give_bo(c, bo, out, len) : -ENOENT;
	} else if (!has(f, c)) {
		err = user_add(f, c);
		if (!err && !f->shared) {
			f->shared = true;
			page->files_shared++;
		}
	}
	m->a[0] = f->kind;
	m->a[1] = f->number;
	m->a[2] = (uint64_t)f->pid;
	m->a[3] = f->oflags;
	m->a[4] = f->compute;
	return err;
}

int file_put(struct client *c, uint64_t inode)
{
	struct file *f = by_inode(inode);

	if (!f || f->watch >= 0 || !has(f, c))
		return -EINVAL;
	user_remove(f, c);
	return 0;
}

int file_handle(struct client *c, struct share_msg *m, struct share_bo *out, size_t *len)
{
	struct file *f = by_number(m->a[0]);
	uint64_t handle = m->a[1];
	uint32_t i = 0;
	struct bo *bo;

	if (!f || !has(f, c))
		return -EINVAL;
	if (m->op == SHARE_HANDLE_ADD) {
		bo = bo_find(m->a[1]);
		if (!bo)
			return -ENOENT;
		while (i < f->n_handles && f->handles[i])
			i++;
		if (i == f->n_handles) {
			uint32_t n = f->n_handles ? f->n_handles * 2 : 16;
			struct bo **h = realloc(f->handles, n * sizeof(struct bo *));

			if (!h)
				return -ENOMEM;
			memset(h + f->n_handles, 0, (n - f->n_handles) * sizeof(struct bo *));
			f->handles = h;
			f->n_handles = n;
		}
		f->handles[i] = bo;
		bo->files++;
		m->a[0] = i + 1;
		return 0;
	}
	bo = handle && handle <= f->n_handles ? f->handles[handle - 1] : NULL;
	if (!bo)
		return -ENOENT;
	if (m->op == SHARE_HANDLE_FIND)
		return give_bo(c, bo, out, len);
	f->handles[handle - 1] = NULL;
	bo_file_put(bo);
	return 0;
}

int file_compute(uint64_t number, bool on)
{
	struct file *f = by_number(number);

	if (!f)
		return -EINVAL;
	if (f->compute && on)
		return -EBUSY;
	f->compute = on;
	return 0;
}

bool file_hung_up(void *who)
{
	for (struct file *f = files; f; f = f->next) {
		if (f == who) {
			file_free(f);
			return true;
		}
	}
	return false;
}

void files_drop(struct client *c)
{
	for (struct file *f = files, *next; f; f = next) {
		next = f->next;
		if (has(f, c))
			user_remove(f, c);
	}
}
