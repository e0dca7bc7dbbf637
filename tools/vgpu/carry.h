/* What goes with a descriptor into another program image: a list of 64-bit words, and the files that
 * hold memory of the device.
 *
 * The writer describes what the kept descriptors refer to (preload/carry.c); the reader, in the image
 * that exec has loaded, makes it again in the same order. Objects that several refer to are numbered.
 */
#ifndef VGPU_CARRY_H
#define VGPU_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct gem;
struct drm_file;
struct kfd_process;
struct smi_client;

#define CARRY_NONE UINT64_MAX
#define CARRY_FDS  64
/* Where their numbers begin: below those that the device keeps for itself. */
#define CARRY_FIRST_FD 960

struct carry {
	uint64_t *w;
	size_t n, cap, at;
	bool bad;       /* out of memory, or the list does not read as one */
	void **item[3]; /* objects by number: CARRY_GEM, ... */
	size_t items[3];
	bool in_place;       /* written for the image that replaces this one */
	int from[CARRY_FDS]; /* files that go with it, and their inheritable copies */
	int to[CARRY_FDS];
	unsigned n_fds;
};
enum { CARRY_GEM, CARRY_DRM, CARRY_KFD };

static inline void carry_put(struct carry *c, uint64_t v)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 512;
		uint64_t *w = realloc(c->w, cap * sizeof(*w));

		if (!w) {
			c->bad = true;
			return;
		}
		c->w = w;
		c->cap = cap;
	}
	c->w[c->n++] = v;
}

static inline uint64_t carry_get(struct carry *c)
{
	if (c->at >= c->n) {
		c->bad = true;
		return 0;
	}
	return c->w[c->at++];
}

/* len is a constant of both sides. */
static inline void carry_put_bytes(struct carry *c, const void *p, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = 0;

		memcpy(&v, (const char *)p + i, len - i < 8 ? len - i : 8);
		carry_put(c, v);
	}
}

static inline void carry_get_bytes(struct carry *c, void *p, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = carry_get(c);

		memcpy((char *)p + i, &v, len - i < 8 ? len - i : 8);
	}
}

/* The writer's number of an object, a new one if it is met for the first time. */
static inline uint64_t carry_number(struct carry *c, int kind, const void *p)
{
	void **more;

	if (!p)
		return CARRY_NONE;
	for (size_t i = 0; i < c->items[kind]; i++) {
		if (c->item[kind][i] == p)
			return i;
	}
	more = realloc(c->item[kind], (c->items[kind] + 1) * sizeof(*more));
	if (!more) {
		c->bad = true;
		return CARRY_NONE;
	}
	c->item[kind] = more;
	more[c->items[kind]] = (void *)(uintptr_t)p;
	return c->items[kind]++;
}

/* The reader's object of a number, or NULL. */
static inline void *carry_item(const struct carry *c, int kind, uint64_t number)
{
	return number < c->items[kind] ? c->item[kind][number] : NULL;
}

/* A file that goes with it: its number there; the reader's is the same. -1: it cannot. */
int carry_fd(struct carry *c, int fd);

/* One of each kind, to be read where it was written; NULL or false if it cannot be made again. */
void gem_carry_out(struct carry *c, const struct gem *g);
struct gem *gem_carry_in(struct carry *c);
void drm_carry_out(struct carry *c, const struct drm_file *f);
struct drm_file *drm_carry_in(struct carry *c);
void kfd_carry_out(struct carry *c, struct kfd_process *p);
struct kfd_process *kfd_carry_in(struct carry *c);
void smi_carry_out(struct carry *c, const struct smi_client *s);
struct smi_client *smi_carry_in(struct carry *c, int fd); /* fd: the client's end */

#endif
