#ifndef ENGINE_PLAN_INTERNAL_H
#define ENGINE_PLAN_INTERNAL_H

#include "engine/plan.h"

/* Places the graph's activations and decides barriers and segments (plan_schedule.c). */
int plan_schedule(struct plan *p, struct plan_graph *pg);

/* How a tensor wants to lie (plan_place.c). */
struct plan_fit {
	uint64_t align; /* of its start */
	uint64_t round; /* of its size */
	uint64_t zone;  /* red zone on each side */
};
/* What rules call a tensor in one of these buffers. */
void plan_part_name(enum plan_bo_id bo, const char *tensor, char *out, size_t len);
/* Whether bo_create() makes the buffer; not so the event page, whose place is the kernel's choice. */
bool plan_placed(const struct plan_buffer *b);
struct plan_fit plan_fit(struct plan *p, enum plan_bo_id bo, const char *tensor);
/* Takes bytes at the end of a buffer. -EOVERFLOW. */
int plan_append(struct plan_bo *bo, uint64_t bytes, uint64_t align, uint64_t *offset);
/* The same for a tensor that stays, with its red zones. */
int plan_append_tensor(struct plan *p, enum plan_bo_id bo, const char *tensor, uint64_t bytes,
		       uint64_t *offset);
/* Bounded residency (plan_slot.c): counts blocks. -EINVAL, -ENOMEM, with one line. */
int plan_slot_init(struct plan *p, const struct graph *const *graphs, uint32_t n, uint32_t refilled,
		   char *err, size_t errlen);
bool plan_slot_holds(const struct plan *p, const struct tensor *t);
/* A place in the slot, beside the other weights of its block. */
int plan_slot_append(struct plan *p, const struct tensor *t, struct plan_place *pl);
/* Which block of the slot a node reads; -1: none. */
int32_t plan_slot_of(const struct plan_graph *pg, const struct node *n);
/* Enters the red zones around [offset, offset + bytes). graph as in struct plan_zone. */
int plan_zones(struct plan *p, enum plan_bo_id bo, int32_t graph, const char *tensor,
	       const struct plan_fit *fit, uint64_t offset, uint64_t bytes);

#endif
