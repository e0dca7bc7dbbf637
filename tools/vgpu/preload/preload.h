/* The libc surface: path and fd tables, nothing else.
 *
 * A hook may run before this library's constructor, in any thread, inside a sanitizer's or a test
 * sandbox's start-up: everything here is lazy, and a call that concerns no device costs a compare.
 */
#ifndef VGPU_PRELOAD_H
#define VGPU_PRELOAD_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "kfd/vkfd.h"

#define HOOK __attribute__((visibility("default")))

/* libc's own function behind a hook of the same name. In the trap backend (trap/), which is linked
 * statically, the hooks have names of their own. */
#ifdef VGPU_TRAP
#define REAL(name)                                                                                 \
	({                                                                                         \
		extern __typeof__(name) real_##name __asm__(#name);                                \
		real_##name;                                                                       \
	})
#else
#define REAL(name)                                                                                 \
	({                                                                                         \
		static __typeof__(name) *fn_;                                                      \
		__typeof__(name) *f_ = __atomic_load_n(&fn_, __ATOMIC_RELAXED);                    \
		if (__builtin_expect(!f_, 0)) {                                                    \
			f_ = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                          \
			__atomic_store_n(&fn_, f_, __ATOMIC_RELAXED);                              \
		}                                                                                  \
		f_;                                                                                \
	})
#endif

/* ---- open file descriptions (fd.c) ---------------------------------------- */

enum vfile_kind { VFILE_KFD, VFILE_DRM, VFILE_SMI, VFILE_DMABUF };

/* One open file description: dup shares it, a second open does not. */
struct vfile {
	uint32_t refs; /* fds plus calls in progress */
	enum vfile_kind kind;
	uint32_t serial; /* for the trace: kfd0, drm1, ... */
	bool path_only;  /* O_PATH: names the node, opens nothing */
	bool primary;    /* card0 */
	int oflags;
	/* What the client set for asynchronous input (F_SETSIG, F_SETOWN, F_SETOWN_EX). */
	int sig, owner, owner_kind;
	uint64_t ino, dev; /* of the kernel's file behind it: tells a reused number */
	bool named;        /* shared device: the daemon is to be told of the last close */
	bool stale;        /* shared device: copied by a fork, to be asked for anew */
	union {
		struct kfd_process *kfd;
		struct drm_file *drm;
		struct smi_client *smi;
		struct gem *gem;
	};
};

extern uint32_t vfd_live; /* fds in the table: 0 means no hook has anything to do */

/* The description behind fd with a reference, or NULL. */
struct vfile *vfd_get(int fd);
void vfile_put(struct vfile *v);
static inline struct vfile *vfd_find(int fd)
{
	return __builtin_expect(__atomic_load_n(&vfd_live, __ATOMIC_RELAXED), 0) ? vfd_get(fd)
										 : NULL;
}
/* Makes fd one of ours; takes over the reference. -EMFILE if the number is out of range. */
int vfd_install(int fd, struct vfile *v);
/* fd is about to be closed or replaced: forgets it. */
void vfd_forget(int fd);
void vfd_forget_range(unsigned first, unsigned last);
void vfd_duplicated(int from, int to);
/* fd came through a socket: one of ours if it is the same open file as one we have. */
void vfd_received(int fd);
struct msghdr;
void fds_received(struct msghdr *m); /* all that a recvmsg() brought */
/* Called for every number that becomes the device's, unless NULL. */
extern void (*vfd_installed)(int fd);
struct vfile *vfile_new(enum vfile_kind kind);
/* Calls fn for every descriptor of a kind, with a reference held meanwhile. */
void vfd_each(enum vfile_kind kind, void (*fn)(int fd, struct vfile *v, void *ctx), void *ctx);
int vfd_fdinfo(struct vfile *v, char *buf, size_t n); /* text of /proc/<pid>/fdinfo; -1: not DRM */
void vfd_init(void);                                  /* fills vgpu_files */

/* Another process's file that came to us without a socket (inherited over exec): one of ours now. */
struct vfile *vfd_adopt(int fd);
void vfd_adopt_all(void);               /* at the start of a program: what it has inherited */
void vfd_inherited(void);               /* in a forked child */
struct gem *vfile_gem(struct vfile *v); /* of a dma-buf, with a reference; NULL: memory is gone */
/* Calls fn for each fd of ours, with the table locked. */
void vfd_each_locked(void (*fn)(int fd, struct vfile *v, void *ctx), void *ctx);

/* ---- descriptors of other images and processes (carry.c) ------------------- */

/* What was made for the next image, to be closed when there is none after all. */
struct kept {
	int fd[80];
	unsigned n;
};
/* Describes the inheritable descriptors of ours for a program that begins now; in_place: it replaces
 * this one. False: there are none, and nothing is to be ended. */
bool kept_begin(struct kept *k, bool in_place);
void kept_end(struct kept *k);
void kept_attach(void); /* in the image that begins: makes again what was described */
/* Marks fd, whose description is new, for processes that receive it. */
void vfd_mark(int fd, const struct vfile *v);
/* What a received descriptor with a mark is here, or NULL. */
struct vfile *vfile_from_mark(int fd);

/* open() of a device node: fd or -1 with errno. */
int dev_open(enum vfile_kind kind, bool primary, int flags);

/* ---- paths (path.c, tree.c) ----------------------------------------------- */

enum path_kind {
	PATH_OTHER,  /* none of ours: use it as it is */
	PATH_MAPPED, /* buf has the file to use instead */
	PATH_KFD,    /* buf has the placeholder of the node */
	PATH_RENDER,
	PATH_CARD,
};

#define PATH_BUF 512

enum path_kind path_slow(const char *path, char *buf);
/* A file of the tree is about to be opened: what opening it sets off. */
void path_opening(const char *mapped);
/* What path means from the directory dirfd, if only its last component says "kfd". */
enum path_kind path_alias(int dirfd, const char *path, char *buf);
/* A link below /proc/self/fd to one of our descriptors: what opening it opens. */
enum path_kind path_of_fd(const char *path, char *buf);
static inline enum path_kind path_map_at(int dirfd, const char *path, char *buf)
{
	enum path_kind kind = PATH_OTHER;
	size_t n;

	/* libc declares its path parameters nonnull; clients pass NULL all the same (EFAULT). */
	__asm__("" : "+r"(path));
	if (!path)
		return PATH_OTHER;
	/* Everything of ours begins with /d, /s or /p ... */
	if (path[0] == '/' && (path[1] == 'd' || path[1] == 's' || path[1] == 'p'))
		kind = path_slow(path, buf);
	if (kind != PATH_OTHER)
		return kind;
	/* ... or is /dev/kfd by a roundabout way. */
	n = strlen(path);
	if (n < 3 || memcmp(path + n - 3, "kfd", 3) || (n > 3 && path[n - 4] != '/'))
		return PATH_OTHER;
	return path_alias(dirfd, path, buf);
}
static inline enum path_kind path_map(const char *path, char *buf)
{
	return path_map_at(AT_FDCWD, path, buf);
}
/* For a plain path hook: the path to call with instead, buf if it is one of ours. */
static inline const char *path_mapped(const char *path, char *buf)
{
	return path_map(path, buf) == PATH_OTHER ? path : buf;
}
/* Cuts the tree's root off a path that lies in it, in place; returns path. */
char *path_unmap(char *path);

/* Makes sure the tree has the group; its root without trailing slash, or NULL. */
const char *tree_root(int group);
const char *tree_root_now(void); /* NULL when there is none yet */
/* Writes one file below the root. */
int tree_write(const char *rel, const char *text, size_t len);
void tree_refresh_proc(void); /* .../kfd/proc/<pid> as it is now */
/* Replaces the directory `outside` in one step: fill() writes the new one. */
void tree_outside(void (*fill)(void));
int tree_outside_write(const char *rel, const char *text, size_t len); /* in fill() */
void tree_remove(void);
void tree_after_fork(void);
/* What a placeholder inode stands for. */
enum path_kind tree_node_of(uint64_t dev, uint64_t ino);
bool tree_is_node(uint64_t ino); /* a guess, to ask tree_node_of() about */
/* Which of the kernel's file systems has what the tree has at path. */
enum tree_place { TREE_NOT, TREE_DEV, TREE_SYS, TREE_PROC };
enum tree_place tree_place_of(const char *path);

/* ---- mappings (vma.c) ----------------------------------------------------- */

bool vma_any(uint64_t addr, uint64_t len); /* a device mapping lies in the range */
void vma_add(const struct vma_backing *b, uint64_t addr, uint64_t len);
void vma_remove(uint64_t addr, uint64_t len);
bool vma_get(uint64_t addr, struct vma_backing *out);
void vma_move(uint64_t from, uint64_t to, uint64_t len);
void vma_after_fork(void);

/* ---- trace (trace.c) ------------------------------------------------------ */

bool trace_on(void);
void trace_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void trace_ioctl(const struct vfile *v, unsigned cmd, const void *arg, long ret);
/* Why a call was refused, for VGPU_LOG. */
void log_refused_ioctl(const struct vfile *v, unsigned cmd, const void *arg, long ret);
void log_refused_mmap(const struct vfile *v, size_t len, int prot, int64_t off, int err);
/* An address as the trace names it, in one of a few rotating buffers. */
const char *trace_addr(uint64_t addr);
const char *trace_result(long ret);
const char *trace_file(const struct vfile *v);

/* ---- by number (hooks_syscall.c) ------------------------------------------- */

/* The hook that means the same as system call nr: its result, or -1 with errno. */
long vgpu_syscall(long nr, long a, long b, long c, long d, long e, long f)
	__attribute__((visibility("hidden")));

void publish(void); /* vgpu_files.publish */

/* ---- life ----------------------------------------------------------------- */

void preload_started(void); /* a device was opened: fork handlers, exit work */
void preload_finish(void);  /* exit: statistics, threads, tree */

#endif
