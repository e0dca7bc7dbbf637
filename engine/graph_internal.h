/* The builder that the architectures' graphs are written with. */
#ifndef ENGINE_GRAPH_INTERNAL_H
#define ENGINE_GRAPH_INTERNAL_H

#include "engine/graph.h"
#include "engine/model.h"

struct graph_builder {
	struct graph *g;
	const struct model *m;
	uint32_t cap_tensors, cap_nodes;
	int failed; /* first -errno; every later call is then a no-op that returns -1 */
};

/* A tensor of the step, F32 [ne0, ne1] (I32 for inputs). Returns its index. */
int graph_add(struct graph_builder *b, enum tensor_kind kind, enum ggml_type type, uint64_t ne0,
	      uint64_t ne1, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The tensor of a weight; one index however often it is asked for. */
int graph_weight(struct graph_builder *b, const struct gguf_tensor *t);
/* A node; src ends with GRAPH_END. The returned pointer (to a throw-away node after a failure) is
 * for setting u[] and f[], and valid until the next call. */
#define GRAPH_END -2
struct node *graph_node(struct graph_builder *b, enum graph_op op, int dst, const int *src,
			const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define GRAPH_SRC(...) ((const int[]){__VA_ARGS__, GRAPH_END})

void graph_build_qwen3(struct graph_builder *b);

#endif
