/* The --arg forms of `barewave launch`: read from the command line, matched with the kernel's
 * explicit arguments, placed in buffers, and looked at afterwards. */
#ifndef TOOLS_LAUNCH_ARGS_H
#define TOOLS_LAUNCH_ARGS_H

#include "codeobj/codeobj.h"
#include "tools/tool.h"

struct bo;
struct memory;

enum launch_form { FORM_IN, FORM_OUT, FORM_INOUT, FORM_ZERO, FORM_FILL, FORM_EXPECT, FORM_SCALAR };

struct launch_arg {
	const char *spec; /* as given */
	enum launch_form form;
	uint64_t bytes;        /* of the buffer, or of the scalar */
	uint8_t pattern;       /* OUT, FILL */
	const char *save;      /* OUT, INOUT: write the buffer here afterwards; NULL: nowhere */
	void *data;            /* IN, INOUT, EXPECT: the file; owned */
	uint64_t scalar;       /* little-endian bytes of the value */
	const char *scalar_of; /* "u32", ... */
	const char *expect_path;
	void *expect; /* what the buffer must hold afterwards, or NULL; owned */
	/* while running; no host: no buffer */
	struct bo *bo;       /* its own, NULL in an arena */
	struct arena *zones; /* of its own buffer, when rules want red zones around it */
	uint64_t va;
	void *host;
};

/* Reads the form and its files. TOOL_OK, TOOL_USAGE or TOOL_FAILED, the latter two said. */
int launch_arg_parse(const struct command *c, const char *spec, struct launch_arg *out);
/* --expect INDEX:FILE on arguments already parsed. */
int launch_arg_expect(const struct command *c, const char *spec, struct launch_arg *args,
		      unsigned n);
void launch_arg_free(struct launch_arg *a);

/* One value per explicit argument of k, of the right kind and size. */
int launch_args_match(const struct co_kernel *k, const struct launch_arg *args, unsigned n);
/* Makes and fills the buffer of a, if it has one: of its own, with red zones where the rules want
 * them, or (arena not NULL) inside arena_bo. TOOL_FAILED is said. */
struct arena;
int launch_arg_place(struct memory *m, struct bo *arena_bo, struct arena *arena,
		     struct launch_arg *a, unsigned index);
/* Gives back what launch_arg_place() made. */
void launch_arg_unplace(struct launch_arg *a);
/* Whether nobody wrote to a's red zones; arena as above. TOOL_FAILED is said. */
int launch_arena_check(const struct arena *arena);
/* Writes the explicit arguments of k; dynamic LDS pointers start at lds. */
void launch_args_write(const struct co_kernel *k, const struct launch_arg *args, uint32_t lds,
		       void *kernarg);

/* Afterwards: save, compare. */
struct launch_difference {
	bool compared, equal;
	uint64_t offset, count; /* first differing byte, how many differ */
	uint8_t got, want;
};
int launch_arg_finish(const struct launch_arg *a, struct launch_difference *d);

#endif
