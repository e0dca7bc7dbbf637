/* Pictures of a ledger: the address space, and the footprint over time. */
#ifndef TOOLS_MEM_PICTURE_H
#define TOOLS_MEM_PICTURE_H

#include <stdio.h>

#include "memory/ledger_view.h"

/* One <svg> element. False without memory. */
bool mem_picture_svg(const struct ledger_view *v, FILE *out);
/* A whole page: the same, and the tables. */
bool mem_picture_html(const struct ledger_view *v, FILE *out);

#endif
