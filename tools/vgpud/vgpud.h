/* The daemon of a shared device: what several processes' clients have in common.
 *
 * One thread, one loop; a request is answered before the next one is read, except those that wait
 * for another client to stop its queues, which are jobs (memory.c). All state is here and nowhere
 * else, so a client that dies at any moment leaves nothing half done: its connections end, and
 * client_drop() takes back what it held.
 */
#ifndef VGPUD_H
#define VGPUD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "share/proto.h"

#include "kfd/internal.h"

enum { PLACE_VRAM, PLACE_GTT, PLACE_SYSTEM, PLACES };

struct holder {
	struct holder *next;
	struct client *client;
	uint32_t refs;
	bool kfd; /* its queues use it: they stop before it moves */
	uint32_t pins;
};

struct bo {
	struct bo *hash;
	struct bo *older, *newer; /* of its place, least recently used first */
	uint64_t number, offset, size;
	unsigned place, home; /* home: where it was asked for */
	struct holder *holders;
	uint32_t files; /* dma-bufs and GEM handles of client files */
	struct kfd_charge charge;
	uint32_t kfd_flags, cpu_access;
	uint64_t meta_flags, tiling;
	uint32_t meta_size, meta[64];
};

/* An open file that a client may send to others. */
struct file {
	struct file *next;
	enum share_kind kind;
	uint64_t inode, number; /* number: buffer, or the file's own */
	pid_t pid;              /* of the maker */
	int watch;              /* our end: hung up when the last copy is closed; -1: users */
	struct file_user {
		struct file_user *next;
		struct client *client;
	} *users;
	uint32_t oflags;
	bool compute, shared;
	struct bo **handles; /* DRM: handle - 1 */
	uint32_t n_handles;
};

struct queue { /* compute, added to MES */
	struct queue *next;
	struct client *client;
	uint32_t id;
	uint64_t vm, priority, since, level, asked;
	uint8_t need;
	bool hangs, turned, resident, told, leaving, on; /* on: as the client says */
	uint8_t hqd, vmid;
};

struct job {
	struct job *next;
	struct client *client;
	struct share_msg msg;
	struct bo *moving; /* waits for its users to stop */
};

struct out_msg {
	struct out_msg *next;
	struct share_msg m;
	char data[];
};

struct proc_wait {
	struct proc_wait *next;
	uint64_t request, deadline;
	struct client *from, *to;
};

struct client {
	struct client *next;
	uint32_t number;
	uint64_t key;
	pid_t pid;
	int quick, slow, news; /* connections, or -1 */
	bool gone;             /* to be dropped at the end of the round */
	bool kfd;
	struct reservation { /* against the limits; not, or not yet, a buffer's */
		struct reservation *next;
		uint32_t flags;
		uint64_t size;
	} *reserved;
	int64_t placed[3]; /* by the client itself: VRAM, GTT, PREEMPT */
	uint32_t sdma, watch, queues, smi_streams;
	bool stopped;  /* by eviction; until it is validated */
	bool stopping; /* asked to */
	uint64_t stop_deadline;
	bool reset_pending;
	struct out_msg *out, **out_end; /* news that did not fit the socket */
	unsigned out_n;
};

extern struct client *clients;
extern struct share_page *page;
extern struct kfd_limits limits;
extern struct vgpud_totals {
	uint64_t clients, evictions, moves, resets;
} totals;

/* ---- serve.c */
extern struct share_device device;
int serve(const char *path, bool stay, bool others, int ready);
uint64_t now_ns(void);  /* the device's clock */
uint64_t real_ns(void); /* the host's */

/* ---- conn.c */
enum conn_kind { CONN_LISTEN, CONN_NEW, CONN_HOLD, CONN_QUICK, CONN_SLOW, CONN_NEWS, CONN_PID };

struct conn {
	struct conn *next;
	enum conn_kind kind;
	int fd;
	struct client *client;
};

extern struct conn *conns;
extern char incoming[SHARE_DATA_MAX]; /* data of the message that was read last */
int conn_open(void);                  /* the epoll descriptor, or -errno */
struct conn *conn_new(int fd, enum conn_kind kind, struct client *c); /* takes fd over */
void conn_free(struct conn *k);
/* 1: a message, with the descriptor that came with it or -1; 0: nothing there; -1: the end. */
int conn_read(struct conn *k, struct share_msg *m, int *fd);
void conn_flush(struct conn *k);
int watch_fd(int fd, void *who);
int watch_end(int fd, void *who); /* not what comes, only that nothing comes any more */
void tell(struct client *c, enum share_op op, const uint64_t a[2], const void *data, size_t len);
void answer(int sock, struct share_msg *m, const void *data, size_t len);
void client_join(struct conn *k, struct share_msg *m, int news, int fd_of_page);
void client_slow(struct conn *k, struct share_msg *m);
void client_gone(struct client *c); /* to be dropped at the end of the round */
void client_drop(struct client *c);

/* ---- request.c */
void request(struct client *c, struct share_msg *m, int fd); /* takes fd over */
void news_answer(struct client *c, const struct share_msg *m);
int request_status(const char **text); /* length */
void requests_drop(struct client *c);
bool requests_waiting(void); /* for time to pass */
void reset_step(void);
void proc_timeouts(void);

/* ---- memory.c */
int memory_open(void); /* the pools; -errno */
int memory_fd(void);
uint64_t memory_size(void);
int memory_reserve(struct client *c, uint32_t flags, uint64_t size, const char **why);
void memory_unreserve(struct client *c, uint32_t flags, uint64_t size);
int memory_placed(struct client *c, uint32_t domain, int64_t bytes);
struct bo *bo_find(uint64_t number);
struct bo *bo_at(uint64_t offset);
struct holder *bo_hold(struct bo *bo, struct client *c); /* NULL: no memory */
int bo_put(struct bo *bo, struct client *c);
void bo_release(struct bo *bo); /* frees it if nobody has it */
int bo_pin(struct bo *bo, struct holder *h, int64_t n);
int bo_charge(struct bo *bo, struct client *c, uint32_t flags);
void bo_describe(const struct bo *bo, struct share_bo *out);
void job_add(struct client *c, const struct share_msg *m);
void jobs_run(void);
void memory_drop(struct client *c);
void memory_publish(void);
unsigned memory_count(uint64_t *bytes);

/* ---- files.c */
int file_add(struct client *c, struct share_msg *m, int watch);
int file_find(struct client *c, struct share_msg *m, struct share_bo *out, size_t *len);
enum share_kind file_kind(uint64_t inode);
bool files_travel(void); /* there are files that may be found in other processes */
int file_put(struct client *c, uint64_t inode);
int file_handle(struct client *c, struct share_msg *m, struct share_bo *out, size_t *len);
int file_compute(uint64_t number, bool on);
bool file_hung_up(void *who); /* a watched descriptor has ended; false: it is no file's */
void files_drop(struct client *c);
unsigned files_count(void);

/* ---- places.c */
int place_add(struct client *c, struct share_msg *m);
int place_remove(struct client *c, uint32_t id);
size_t place_tick(struct client *c, const struct share_need *in, size_t n, struct share_turn *out,
		  size_t max);
int place_left(struct client *c, uint32_t id, bool off);
void places_drop(struct client *c);
unsigned places_count(unsigned *resident);
unsigned seats_count(void);              /* waves in the machine */
size_t places_json(char *buf, size_t n); /* one object per queue */

#endif
