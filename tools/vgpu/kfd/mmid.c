/* Which address space is this? A page that the kernel wipes in forked children tells a copy of the
 * memory from the memory itself, however the child was made, where a pid would mistake a child
 * that shares it (vfork, CLONE_VM) for a new process. */
#include "vkfd.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/rawsys.h"

static uint64_t *word; /* generation of this address space; 0 in a fresh copy */
static uint64_t generation;
static pid_t fallback_pid;
static pid_t home; /* whose memory this generation of it is */

uint64_t vgpu_mm_generation(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t *w = __atomic_load_n(&word, __ATOMIC_ACQUIRE), g;

	if (w) {
		g = __atomic_load_n(w, __ATOMIC_ACQUIRE);
		if (g && (!fallback_pid || fallback_pid == getpid()))
			return g;
		/* A copy: nobody else runs in it yet who could hold the lock. */
		if (!g)
			pthread_mutex_init(&lock, NULL);
	}
	pthread_mutex_lock(&lock);
	if (!word) {
		long addr = rawsys6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (addr < 0 && addr > -4096) {
			pthread_mutex_unlock(&lock);
			return 1;
		}
		/* A host kernel before 4.14 cannot wipe: then the pid has to do. */
		if (rawsys3(SYS_madvise, addr, 4096, MADV_WIPEONFORK))
			fallback_pid = getpid();
		__atomic_store_n(&word, (uint64_t *)addr, __ATOMIC_RELEASE);
	}
	if (fallback_pid && fallback_pid != getpid()) {
		fallback_pid = getpid();
		*word = 0;
	}
	if (!*word) {
		__atomic_store_n(&home, (pid_t)rawsys0(SYS_getpid), __ATOMIC_RELAXED);
		__atomic_store_n(word, ++generation, __ATOMIC_RELEASE);
	}
	g = *word;
	pthread_mutex_unlock(&lock);
	return g;
}

/* A child that borrows this memory (vfork, until it executes) has descriptors of its own, while the
 * tables of them that lie here are its parent's. */
bool vgpu_mm_borrowed(void)
{
	pid_t whose;

	vgpu_mm_generation();
	whose = __atomic_load_n(&home, __ATOMIC_RELAXED);
	return whose && whose != (pid_t)rawsys0(SYS_getpid);
}
