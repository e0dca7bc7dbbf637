/* What makes the kernel refuse a call, in words, for the log. */
#include "why.h"

#include <errno.h>

#include "abi.h"

static const struct {
	unsigned nr;
	int err;
	const char *text;
} reasons[] = {
#define WHY(call, e, words) {KFD_NR_##call, e, words},
#include "why.def"
#undef WHY
};

const char *kfd_why(unsigned nr, int err)
{
	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].nr == nr && reasons[i].err == err)
			return reasons[i].text;
	}
	if (err == EBADF)
		return "the descriptor is of another process: each opens /dev/kfd for itself";
	if (err == EFAULT)
		return "the arguments, or what they point to, cannot be read or written";
	if (err == ENOTTY)
		return "this kernel's KFD has no call of that number";
	return NULL;
}

const char *kfd_why_mmap(uint64_t off)
{
	switch (off & KFD_MMAP_TYPE_MASK) {
	case KFD_MMAP_TYPE_DOORBELL:
		return "wanted: 8192 bytes at CREATE_QUEUE's doorbell_offset, rounded down to 8192";
	case KFD_MMAP_TYPE_EVENTS:
		return "wanted: at most 32 KiB, after the first CREATE_EVENT, and no event page of "
		       "the client's own";
	}
	return "wanted: an offset that a call to /dev/kfd gave; buffers are mapped through the "
	       "render node";
}
