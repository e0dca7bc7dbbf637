#include "vm/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "vm/internal.h"

#define ENTRIES 512u
#define LEAF    3u

/* Directories know their children; of a leaf only the existence counts. */
struct table {
	struct table *child[ENTRIES];
};

struct vm_tables {
	struct table root;
	uint64_t n; /* root included */
};

static const struct table leaf;

static unsigned shift_of(unsigned level)
{
	return 9 * (LEAF - level);
}

static struct table *table_new(struct vm_tables *t, unsigned level)
{
	struct table *n = (struct table *)&leaf;

	if (!vm_table_take())
		return NULL;
	if (level < LEAF)
		n = calloc(1, sizeof(*n));
	if (!n)
		vm_table_give();
	else
		t->n++;
	return n;
}

static void table_free(struct vm_tables *t, struct table *n, unsigned level)
{
	for (unsigned i = 0; level < LEAF && i < ENTRIES; i++) {
		if (n->child[i])
			table_free(t, n->child[i], level + 1);
	}
	if (level && level < LEAF)
		free(n);
	vm_table_give();
	t->n--;
}

int vm_tables_create(struct vm_tables **out)
{
	struct vm_tables *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	if (!vm_table_take()) {
		free(t);
		return -ENOMEM;
	}
	t->n = 1;
	*out = t;
	return 0;
}

void vm_tables_destroy(struct vm_tables *t)
{
	table_free(t, &t->root, 0);
	free(t);
}

uint64_t vm_tables_bytes(const struct vm_tables *t)
{
	return t->n * VM_PAGE;
}

/* The largest aligned power of two of pages that starts at page and ends by end: what the kernel
 * calls a fragment (amdgpu_vm_pte_fragment). Its size decides the level of the entry. */
static unsigned fragment(uint64_t page, uint64_t end)
{
	unsigned len = 63 - (unsigned)__builtin_clzll(end - page);
	unsigned align = page ? (unsigned)__builtin_ctzll(page) : 63;

	return align < len ? align : len;
}

static unsigned level_for(unsigned order)
{
	unsigned level = LEAF;

	while (level && order >= shift_of(level - 1))
		level--;
	return level;
}

/* The table of page at level; made on the way when make, else false where there is none. */
static bool descend(struct vm_tables *t, uint64_t page, unsigned level, bool make,
		    struct table **out)
{
	struct table *n = &t->root;

	for (unsigned l = 0; l < level; l++) {
		struct table **c = &n->child[page >> shift_of(l) & (ENTRIES - 1)];

		if (!*c && make)
			*c = table_new(t, l + 1);
		if (!*c)
			return false;
		n = *c;
	}
	*out = n;
	return true;
}

/* Entries for [page, page + 2^order) in the table of its level: nothing may hang below them. */
static void cover(struct vm_tables *t, struct table *n, unsigned level, uint64_t page,
		  unsigned order)
{
	unsigned first = page >> shift_of(level) & (ENTRIES - 1);
	unsigned count = 1u << (order - shift_of(level));

	for (unsigned i = first; level < LEAF && i < first + count; i++) {
		if (n->child[i])
			table_free(t, n->child[i], level + 1);
		n->child[i] = NULL;
	}
}

/* One unbroken run of pages. */
static int map_run(struct vm_tables *t, uint64_t page, uint64_t end)
{
	while (page < end) {
		unsigned order = fragment(page, end), level = level_for(order);
		struct table *n;

		if (!descend(t, page, level, true, &n))
			return -ENOMEM;
		cover(t, n, level, page, order);
		page += 1ull << order;
	}
	return 0;
}

int vm_tables_map(struct vm_tables *t, uint64_t va, uint64_t size, uint64_t piece)
{
	uint64_t page = va / VM_PAGE, end = (va + size) / VM_PAGE;
	unsigned most = (unsigned)__builtin_ctzll(piece / VM_PAGE);
	int err = 0;

	/* Single pages: every 2 MiB has its table, whatever lies in it. */
	while (!most && page < end) {
		struct table *n;

		if (!descend(t, page, LEAF, true, &n))
			return -ENOMEM;
		page = (page | (ENTRIES - 1)) + 1;
	}
	while (page < end && !err) {
		unsigned order = 63 - (unsigned)__builtin_clzll(end - page);
		uint64_t run = 1ull << (order < most ? order : most);

		err = map_run(t, page, page + run);
		page += run;
	}
	return err;
}

void vm_tables_unmap(struct vm_tables *t, uint64_t va, uint64_t size)
{
	uint64_t page = va / VM_PAGE, end = (va + size) / VM_PAGE;

	while (page < end) {
		unsigned order = fragment(page, end), level = level_for(order);
		struct table *n;

		if (descend(t, page, level, false, &n))
			cover(t, n, level, page, order);
		page += 1ull << order;
	}
}
