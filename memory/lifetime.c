/* Scopes, and frees that wait for the device. */
#include <errno.h>
#include <stdlib.h>

#include "memory/memory_internal.h"

struct mem_scope {
	struct memory *m;
	enum mem_scope_kind kind;
	struct mem_scope *parent, *children, *sibling;
	struct bo *bos;
};

enum mem_scope_kind mem_scope_kind_of(const struct mem_scope *s)
{
	return s ? s->kind : SCOPE_PROCESS;
}

void mem_scope_attach(struct mem_scope *s, struct bo *b)
{
	b->scope_next = s->bos;
	s->bos = b;
}

void mem_scope_detach(struct bo *b)
{
	struct bo **p;

	if (!b->scope)
		return;
	for (p = &b->scope->bos; *p != b; p = &(*p)->scope_next)
		;
	*p = b->scope_next;
	b->scope = NULL;
}

int mem_scope_create(struct memory *m, enum mem_scope_kind kind, struct mem_scope *parent,
		     struct mem_scope **out)
{
	struct mem_scope *s;

	/* What lives shorter lies inside what lives longer, not the other way round. */
	if (parent && kind <= parent->kind) {
		kfd_reason_set("scope of kind %d inside one of kind %d refused; wanted: a kind "
			       "that lives shorter (process, model, context, request, batch)",
			       kind, parent->kind);
		return -EINVAL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->m = m;
	s->kind = kind;
	memory_lock(m);
	s->parent = parent;
	if (parent) {
		s->sibling = parent->children;
		parent->children = s;
	}
	m->nscopes++;
	memory_unlock(m);
	*out = s;
	return 0;
}

static int retire_locked(struct bo *b)
{
	b->retired = true;
	if (b->fence.done && !b->fence.done(b->fence.ctx))
		return 1;
	return bo_destroy_locked(b);
}

static int scope_end_locked(struct mem_scope *s)
{
	struct memory *m = s->m;
	int rc, waits = 0;

	for (struct mem_scope *c = s->children, *next; c; c = next) {
		next = c->sibling;
		rc = scope_end_locked(c);
		if (rc < 0)
			return rc;
		waits |= rc;
	}
	for (struct bo *b = s->bos, *next; b; b = next) {
		next = b->scope_next;
		rc = retire_locked(b);
		if (rc < 0)
			return rc;
		if (rc) {
			/* It outlives its scope, in the care of memory_reap(). */
			mem_scope_detach(b);
			waits = 1;
		}
	}
	if (s->parent) {
		struct mem_scope **p = &s->parent->children;

		while (*p != s)
			p = &(*p)->sibling;
		*p = s->sibling;
	}
	m->nscopes--;
	free(s);
	return waits;
}

int mem_scope_end(struct mem_scope *s)
{
	struct memory *m;
	int rc;

	if (!s)
		return 0;
	m = s->m;
	memory_lock(m);
	rc = scope_end_locked(s);
	memory_unlock(m);
	return rc;
}

void bo_fence_set(struct bo *b, const struct bo_fence *f)
{
	memory_lock(b->m);
	b->fence = *f;
	memory_unlock(b->m);
}

int bo_retire(struct bo *b)
{
	struct memory *m;
	int rc;

	if (!b)
		return 0;
	m = b->m;
	memory_lock(m);
	rc = retire_locked(b);
	/* Refused for now (a queue still holds it): like a fence that is not done. */
	if (rc < 0)
		rc = 1;
	memory_unlock(m);
	return rc;
}

unsigned memory_reap(struct memory *m)
{
	unsigned waiting = 0;

	memory_lock(m);
	for (struct bo *b = m->bos, *next; b; b = next) {
		next = b->next;
		if (b->retired && retire_locked(b))
			waiting++;
	}
	memory_unlock(m);
	return waiting;
}
