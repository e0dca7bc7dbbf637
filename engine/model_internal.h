/* What the architectures' loaders share. One file per architecture: model_<arch>.c and
 * graph_<arch>.c; a new one adds its enum value, its row in model.c and its row in graph.c. */
#ifndef ENGINE_MODEL_INTERNAL_H
#define ENGINE_MODEL_INTERNAL_H

#include "engine/model.h"

struct model_loader {
	const struct gguf *g;
	struct model *m;
	uint32_t n_bound; /* distinct tensors bound so far */
	uint8_t *bound;   /* per tensor of the file */
	char *err;
	size_t errlen;
};

/* "<arch>.<key>" as u32 in [min, max]. -ENOENT (with a line) when missing. */
int model_key_u32(struct model_loader *l, const char *key, uint32_t min, uint32_t max,
		  uint32_t *out);
/* The same, *out untouched and 0 when missing. */
int model_key_u32_opt(struct model_loader *l, const char *key, uint32_t min, uint32_t max,
		      uint32_t *out);
/* "<arch>.<key>" as a finite float > 0. */
int model_key_f32(struct model_loader *l, const char *key, float *out);
bool model_has_key(const struct model_loader *l, const char *key);

/* Tensor name with shape [ne0, ne1] and a type the engine computes with. layer < 0: name is the
 * whole name; else "blk.<layer>.<name>". */
int model_bind_matrix(struct model_loader *l, int layer, const char *name, uint64_t ne0,
		      uint64_t ne1, const struct gguf_tensor **out);
/* The same with shape [ne0] and type F32. */
int model_bind_vector(struct model_loader *l, int layer, const char *name, uint64_t ne0,
		      const struct gguf_tensor **out);

int model_load_qwen3(struct model_loader *l);

#endif
