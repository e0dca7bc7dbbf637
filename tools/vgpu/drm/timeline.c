/* Timelines: fences in links, each with a point (dma-fence-chain.c). See fence.h. */
#include <errno.h>
#include <stddef.h>

#include "fence.h"

bool fence_signaled(struct fence *f)
{
	struct fence *at;

	if (!f->chain || f->signaled)
		return f->signaled;
	for (at = fence_get(f); at; at = fence_walk(at)) {
		struct fence *held = at->chain ? at->contained : at;

		/* Recursion: only links that were transferred hold links. */
		if (!fence_signaled(held)) {
			fence_put(at);
			return false;
		}
	}
	return f->signaled = true;
}

struct fence *fence_walk(struct fence *f)
{
	struct fence *prev = NULL;

	while (f->chain && (prev = f->prev)) {
		if (!fence_signaled(prev->chain ? prev->contained : prev))
			break;
		f->prev = prev->chain ? fence_get(prev->prev) : NULL;
		fence_put(prev);
	}
	fence_get(prev);
	fence_put(f);
	return prev;
}

int fence_find(struct fence **f, uint64_t point)
{
	struct fence *head = *f, *at;

	if (!point)
		return 0;
	if (!head || !head->chain || head->seqno < point)
		return -EINVAL;
	for (at = fence_get(head); at; at = fence_walk(at)) {
		if (at->context != head->context || at->prev_seqno < point)
			break;
	}
	fence_put(head);
	*f = at;
	return 0;
}

void fence_link(struct fence *f, struct fence *prev, struct fence *contained, uint64_t seqno)
{
	if (prev && prev->chain && seqno > prev->seqno) {
		f->context = prev->context;
		f->prev_seqno = prev->seqno;
	} else {
		f->context = fence_context();
		/* Points that come out of order do not go back. */
		if (prev && prev->chain && prev->seqno > seqno)
			seqno = prev->seqno;
	}
	f->chain = true;
	f->seqno = seqno;
	f->prev = prev;
	f->contained = fence_get(contained);
}
