/* A device that several processes share: this process's side (share/client.c).
 *
 * VGPU_SHARED names the daemon's socket. Without it share_on() is false, nothing else here is ever
 * called, and all state is this process's own. With it, what belongs to the device is the daemon's:
 * memory and its limits, places of queues, SDMA queues, resets, names of files. Address spaces,
 * events, queues and waves stay here.
 *
 * Calls return 0 or -errno; -ENODEV once the daemon is gone.
 */
#ifndef VGPU_SHARE_H
#define VGPU_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "share/proto.h"

bool share_on(void);
/* The device's description over the defaults: the configuration starts from it. */
int share_describe(struct share_device *out);
/* Becomes a client; again in a forked child. 0, -ENODEV (said why). */
int share_join(void);
/* A copy of the address space is no client. */
void share_after_fork(void);
extern bool share_joined; /* this address space is a client, or was one until the daemon went */
extern const struct share_page *share_page;
/* The wave slots, which clients write themselves, and whose word in them this process is. */
extern uint64_t (*share_seats)[SHARE_SIMDS][SHARE_SLOTS];
extern uint32_t share_number;
static inline bool share_active(void)
{
	return __builtin_expect(share_joined, 0);
}
bool share_lost(void); /* the daemon is gone */
int share_memory_fd(uint64_t *size);

/* What the daemon may ask of this process; all run on the news thread. */
struct share_handlers {
	void (*evict)(void); /* returns once the queues stand still */
	void (*mes)(void);
	void (*reset_begin)(int source, uint32_t seq);
	void (*reset_end)(uint32_t resets);
	void (*smi)(pid_t pid, int event, const char *text, size_t len);
	int (*about)(int about, char *buf, size_t n); /* length */
	void (*lost)(void);
};
extern struct share_handlers share_handlers; /* filled before share_join() */

/* Files go by their inode; sockets and memory files number theirs each for themselves. */
static inline uint64_t share_inode(bool socket, uint64_t inode)
{
	return socket ? inode | 1ull << 63 : inode;
}
/* What the client's file with this inode is, or 0; asks without joining. Inode 0: whether there are
 * any that another process may have inherited. */
enum share_kind share_file_kind(uint64_t inode);
/* op with up to SHARE_ARGS arguments, which are replaced by the answer's. */
int share_call(enum share_op op, uint64_t a[SHARE_ARGS]);
/* With data in both directions (out may be NULL); *out_len is its room, then its length. fd < 0:
 * none. */
int share_call_data(enum share_op op, uint64_t a[SHARE_ARGS], int fd, const void *in, size_t in_len,
		    void *out, size_t *out_len);

/* The usual ones. */
/* domain: of amdgpu_drm.h */
int share_bo_alloc(uint32_t domain, uint64_t size, uint64_t *number, uint64_t *offset);
void share_bo_put(uint64_t number);

#endif
