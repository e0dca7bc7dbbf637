/* Code objects embedded in the library: one per source file in kernels/. */
#ifndef KERNELS_H
#define KERNELS_H

struct kernels_embedded {
	const char *name;        /* source file without suffix, e.g. "matmul" */
	const void *begin, *end; /* ELF image, 4 KiB aligned */
};
extern const struct kernels_embedded kernels_embedded[]; /* ends with name == NULL */

#endif
