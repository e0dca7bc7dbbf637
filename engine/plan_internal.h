#ifndef ENGINE_PLAN_INTERNAL_H
#define ENGINE_PLAN_INTERNAL_H

#include "engine/plan.h"

/* Places the graph's activations and decides barriers and segments (plan_schedule.c). */
int plan_schedule(struct plan *p, struct plan_graph *pg);

#endif
