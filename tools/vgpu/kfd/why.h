/* What makes the kernel refuse a call, in words, for the log. Pure. */
#ifndef VGPU_KFD_WHY_H
#define VGPU_KFD_WHY_H

#include <stdint.h>

/* Of ioctl nr and a positive errno; NULL where nothing more is known than the kernel says. */
const char *kfd_why(unsigned nr, int err);
/* Of mmap() of /dev/kfd at off. */
const char *kfd_why_mmap(uint64_t off);

#endif
