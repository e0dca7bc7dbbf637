/* A tape of everything a wave asks of the world outside: memory and clocks. Recorded while one
 * implementation of the instructions runs, replayed to another, which must ask for the same things
 * in the same order with the same data, gets the same answers, and touches nothing.
 *
 * An access is taken to the tape by giving a sem function a front port, whose every access goes
 * here (vm_port.tape); the real port stands behind it. */
#ifndef VGPU_VM_TAPE_H
#define VGPU_VM_TAPE_H

#include "vm/vm.h"

struct vm_tape {
	bool replay;
	bool differs; /* replay: something else was asked for; why says what */
	char why[240];
	uint8_t *bytes; /* owned; freed by vm_tape_fini() */
	size_t n, cap, at;
};

struct vm_front {
	struct vm_port port; /* to hand out */
	struct vm_port *real;
};

/* f stands before real, on tape t. */
void vm_front_init(struct vm_front *f, struct vm_port *real, struct vm_tape *t);
/* Empties the tape, to record. */
void vm_tape_record(struct vm_tape *t);
/* Back to the tape's start, to replay. */
void vm_tape_rewind(struct vm_tape *t);
/* True when replay has asked for everything recorded; else why says what was left out. */
bool vm_tape_over(struct vm_tape *t);
void vm_tape_fini(struct vm_tape *t);

/* As vm_access() and vm_read()/vm_write() on a front port: VM_FETCH is not for tapes. A replay that
 * differs returns every lane, or -EFAULT. */
uint32_t vm_tape_access(struct vm_port *p, enum vm_op op, const uint64_t *addr, uint32_t mask,
			unsigned size, unsigned cache, uint32_t *data);
int vm_tape_span(struct vm_port *p, enum vm_op op, uint64_t va, void *buf, size_t n,
		 unsigned cache);
/* A question that is no memory access: kind and args say which, *answer is recorded or given. */
void vm_tape_ask(struct vm_tape *t, unsigned kind, uint64_t a, uint64_t b, uint64_t *answer);
/* Whether two dwords mean the same: equal, or NaNs of the same width in the same place. */
bool vm_same_value(uint32_t a, uint32_t b);

#endif
