/* GGUF v2/v3 files: a bounds-checked, read-only view of one file's metadata and tensors.
 *
 * Format: the public GGUF specification (ggml docs/gguf.md): magic "GGUF", u32 version, u64 tensor
 * count, u64 key count, key/value pairs, tensor infos, padding to general.alignment, tensor data.
 * All integers little-endian here; a big-endian file is named as such and refused.
 *
 * Nothing is copied out of the image: strings, arrays and tensors point into it and live as long as
 * it does. Strings are not NUL-terminated.
 *
 * Errors: -errno, and one line in err naming the file, the field, the value and whose rule it
 * broke. -EINVAL malformed or over a limit, -ENOTSUP a version, byte order or tensor type not read
 * here, -ENOMEM, and for gguf_open() whatever open(2), fstat(2) or mmap(2) said. Outputs are
 * untouched on failure. None of these calls is on the per-token path.
 */
#ifndef ENGINE_GGUF_H
#define ENGINE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value types of the metadata (GGUF specification, gguf_metadata_value_type). */
enum gguf_type {
	GGUF_U8 = 0,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPE_COUNT
};

/* Our own limits: far above any published model, low enough that no count can ask for memory that
 * the file could not back. */
#define GGUF_MAX_KV      65536u
#define GGUF_MAX_TENSORS 65536u
#define GGUF_MAX_KEY     65535u      /* the specification's own limit for keys */
#define GGUF_MAX_STRING  (16u << 20) /* bytes of one string value */
#define GGUF_MAX_ARRAY   (64u << 20) /* elements of one array */
#define GGUF_MAX_NAME    63u         /* tensor names: GGML_MAX_NAME less its NUL */
#define GGUF_MAX_DIMS    4u          /* GGML_MAX_DIMS */
#define GGUF_MAX_ALIGN   (1u << 30)

struct gguf_str {
	const char *p;
	size_t n;
};

struct gguf_kv {
	struct gguf_str key;
	enum gguf_type type;
	enum gguf_type elem; /* of an array; equals type otherwise. Arrays of arrays are refused */
	uint64_t count;      /* elements of an array; 1 otherwise */
	const uint8_t *data; /* first byte of the value in the image, unaligned */
};

struct gguf_tensor {
	struct gguf_str name; /* 1..63 bytes */
	uint32_t type;        /* GGML type number; always one quant_type() knows */
	uint32_t n_dims;      /* 1..4 */
	uint64_t ne[4];       /* ne[0] fastest-moving; missing dimensions are 1; none is 0 */
	uint64_t offset;      /* from the start of the file */
	uint64_t bytes;       /* exact size of the data, without padding */
	const void *data;     /* in the image; no two tensors share bytes */
};

struct gguf {
	const char *name; /* for messages; the path for gguf_open() */
	const uint8_t *base;
	size_t size;
	uint32_t version;     /* 2 or 3 */
	uint32_t alignment;   /* general.alignment, 32 when absent */
	uint64_t data_offset; /* where tensor data starts */
	uint32_t n_kv, n_tensors;
	struct gguf_kv *kv;
	struct gguf_tensor *tensors;          /* in file order */
	uint32_t *kv_sorted, *tensors_sorted; /* by name, for the look-ups */
	char *path;        /* name's storage if gguf_open() mapped the image, else NULL */
	int fd;            /* of that file, open as long as the view is; -1: none */
	uint64_t dev, ino; /* its path may come to be another's */
};

/* Parse an image already in memory. Pure: no system call. The image and name must outlive *out.
 * Any address will do for parsing; to compute with the tensors it must be 8-byte aligned, so that
 * F32 vectors are floats in place. */
int gguf_parse(const void *image, size_t size, const char *name, struct gguf **out, char *err,
	       size_t errlen);
/* Map a file read-only and parse it. */
int gguf_open(const char *path, struct gguf **out, char *err, size_t errlen);
/* Frees the view and unmaps the file if gguf_open() mapped it. NULL is allowed. */
void gguf_close(struct gguf *g);

const char *gguf_type_name(enum gguf_type type);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);
bool gguf_str_eq(struct gguf_str s, const char *lit);

/* Typed reads. -ENOENT: no such key. -EINVAL: another type, or a value that does not fit; both with
 * one line in err (err may be NULL). gguf_u32/u64 accept any integer type with a value in range. */
int gguf_u32(const struct gguf *g, const char *key, uint32_t *out, char *err, size_t errlen);
int gguf_u64(const struct gguf *g, const char *key, uint64_t *out, char *err, size_t errlen);
int gguf_f32(const struct gguf *g, const char *key, float *out, char *err, size_t errlen);
int gguf_bool(const struct gguf *g, const char *key, bool *out, char *err, size_t errlen);
int gguf_string(const struct gguf *g, const char *key, struct gguf_str *out, char *err,
		size_t errlen);
/* An array of elem type; the kv gives count and data. */
int gguf_array(const struct gguf *g, const char *key, enum gguf_type elem,
	       const struct gguf_kv **out, char *err, size_t errlen);

/* Element i of a numeric array as integer or float; i < count is the caller's duty. */
int64_t gguf_array_int(const struct gguf_kv *kv, uint64_t i);
double gguf_array_float(const struct gguf_kv *kv, uint64_t i);
/* Walk an array of strings: start with *cursor = 0, call count times. */
struct gguf_str gguf_array_str(const struct gguf_kv *kv, size_t *cursor);

#endif
