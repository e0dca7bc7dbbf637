/* KFD topology: what the kernel says the machine is.
 *
 * topology_read() reads a directory of the shape of /sys/class/kfd/kfd/topology, so that a copy
 * from a bug report works. The parsers are pure. Every property is a 64-bit number by its sysfs
 * name; one the kernel did not print is unknown (topology_known), never 0.
 * Source: amdkfd/kfd_topology.c:node_show, mem_show; kfd-side units as printed.
 */
#ifndef KFD_TOPOLOGY_H
#define KFD_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The properties are listed in topology.def. */
enum topology_property {
#define X(name) TOPOLOGY_##name,
#include "kfd/topology.def"
#undef X
	TOPOLOGY_PROPERTY_COUNT
};

struct topology_node {
	uint32_t index;  /* nodes/N */
	uint32_t gpu_id; /* 0: a CPU */
	char name[64];   /* "ip discovery" on gfx1151; "" for a CPU */
	uint64_t known;  /* bit TOPOLOGY_x: the kernel printed it */
#define X(name) uint64_t name;
#include "kfd/topology.def"
#undef X
	uint64_t mem_bytes; /* sum of the node's memory banks; 0 with mem_known false */
	bool mem_known;
	bool denied; /* the kernel refuses to read it (device cgroup): only index is set */
};

#define TOPOLOGY_MAX_NODES 32

struct topology {
	uint64_t generation;
	unsigned count;
	struct topology_node nodes[TOPOLOGY_MAX_NODES];
};

static inline bool topology_known(const struct topology_node *n, enum topology_property p)
{
	return n->known >> p & 1;
}

/* Shader engines, compute units; 0 when what they follow from is unknown. */
uint32_t topology_cus(const struct topology_node *n);
uint32_t topology_shader_engines(const struct topology_node *n);

/* Pure: "name value" lines of a properties file into *n (index, gpu_id and name untouched).
 * Unknown names are skipped. 0; -EINVAL for a line that is not a name and a decimal number, with
 * its line number and text in why. A last line without newline is taken only if it is whole. */
int topology_parse_properties(const char *text, size_t len, struct topology_node *n, char *why,
			      size_t why_len);
/* Pure: one decimal number and a newline (gpu_id, generation_id). 0 or -EINVAL. */
int topology_parse_number(const char *text, size_t len, uint64_t *out);
/* Pure: what a GPU node must say before the driver can use it. 0; -ENODATA naming the property. */
int topology_check_gpu(const struct topology_node *n, char *why, size_t why_len);

/* Reads the tree under root (NULL: /sys/class/kfd/kfd/topology); generation_id is read before and
 * after and the snapshot repeated when it changed (up to 10 times, then -EAGAIN). 0 or -errno with
 * one sentence in why. */
int topology_read(const char *root, struct topology *out, char *why, size_t why_len);

#endif
