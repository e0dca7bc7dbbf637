/* Names for buffers, from the client's ledger. */
#include "count/internal.h"
#include "ledger.h"

void count_ledger_names(void)
{
	struct vgpu_ledger *l = vgpu_ledger_read();

	for (struct count_buffer *b = count_state.buffers; l && b; b = b->next)
		vgpu_ledger_name(l, b->va, b->map_ns, b->name);
	vgpu_ledger_free(l);
	vgpu_ledger_close();
}
