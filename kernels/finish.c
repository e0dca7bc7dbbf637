/* finish: the last kernel of a step says which step it was, beside the logits. The host refuses
 * logits whose step is not the one it asked for, so results of an earlier step, or of no step at
 * all, are never taken for new ones.
 *
 * Inputs: the step block. Writer of done: work-item 0, once. No barriers; the packet waits for
 * all earlier ones.
 */
#include "kernels/device.h"

KERNEL finish(struct ka_finish a)
{
	if (TID == 0) {
		a.done->n = a.step->n;
		a.done->step = a.step->step;
	}
}
