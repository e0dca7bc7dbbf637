/* Names for buffers. A client that keeps a ledger (memory/ledger_format.h) says in it what each
 * allocation is for; clients without one stay without names. For reports only. */
#ifndef VGPU_LEDGER_H
#define VGPU_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct vgpu_ledger;

/* Takes hold of the client's ledger, if it has one now: it closes its own before it exits. A few
 * times only, then it has none. */
void vgpu_ledger_look(void);
/* What it says now; NULL: there is none, or it cannot be read. */
struct vgpu_ledger *vgpu_ledger_read(void);
/* The owner of what was allocated at va at about the time ns (CLOCK_MONOTONIC), the last one for
 * UINT64_MAX. name is untouched when nothing was. */
void vgpu_ledger_name(const struct vgpu_ledger *l, uint64_t va, uint64_t ns, char name[64]);
void vgpu_ledger_free(struct vgpu_ledger *l);
void vgpu_ledger_close(void);

#endif
