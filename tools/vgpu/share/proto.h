/* What goes between the clients of one shared device and the daemon that owns it (tools/vgpud).
 *
 * Two kinds of SOCK_SEQPACKET connection. Calls: one request, one answer, in order; a client has
 * two, so that an allocation that waits for somebody's memory does not hold up the rest. News: the
 * daemon tells, the client answers what it was asked to do. Everything is a struct share_msg, with
 * `len` bytes behind it; descriptors travel with it.
 */
#ifndef VGPU_SHARE_PROTO_H
#define VGPU_SHARE_PROTO_H

#include <stdint.h>

#include "device.h"

#define SHARE_VERSION   2
#define SHARE_ARGS      6
#define SHARE_DATA_MAX  60000
#define SHARE_PAGE_SIZE 16384

enum share_op {
	/* Of a connection. */
	SHARE_LOOK = 1, /* what the device is: data = struct share_device */
	SHARE_IS_FILE,  /* [0] inode: 0 if it is a client's file, without joining -> [0] kind;
			   [0] 0: whether there are any that could be inherited */
	SHARE_HOLD,     /* keeps the daemon alive as long as the connection */
	SHARE_JOIN,     /* fd: news socket. -> [0] client; fds: memory, page; data as LOOK's */
	SHARE_SLOW,     /* [0] client, [1] key: its connection for calls that wait */
	SHARE_STATUS,   /* -> data: JSON */
	SHARE_STOP,
	SHARE_STAY, /* until SHARE_STOP, clients or not */
	/* KFD process, limits (the flags are ALLOC_MEMORY_OF_GPU's). */
	SHARE_KFD_OPEN,  /* a process object more -> [0] pasid */
	SHARE_RESERVE,   /* [0] flags, [1] size; -ENOMEM with data: the limit's name */
	SHARE_UNRESERVE, /* [0] flags, [1] size */
	SHARE_AVAILABLE, /* -> [0] bytes */
	SHARE_PLACED,    /* [0] domain, [1] bytes, signed: placed by the client itself;
			    -ENOMEM */
	/* Buffers. */
	SHARE_BO_ALLOC,  /* slow. [0] domain, [1] size -> [0] number, [1] offset in memory */
	SHARE_BO_CHARGE, /* [0] number, [1] flags: the reservation is the buffer's now, and
			    the process's queues may use it: they stop before it moves */
	SHARE_BO_PUT,    /* [0] number: the client has no use for it any more */
	SHARE_BO_KFD,    /* [0] number: the process's queues may use it, too */
	SHARE_BO_PIN,    /* [0] number, [1] +1 or -1, signed: it stays where it is */
	SHARE_BO_SET,    /* [0] number, [1] CPU access, [2] metadata flags, [3] tiling; data */
	SHARE_BO_GET,    /* [0] number -> the same */
	SHARE_BO_AT,     /* [0] offset: 0 if a buffer is there */
	SHARE_VALIDATE,  /* slow: the process's buffers where they belong; -ENOMEM: later */
	/* Files that may be sent over sockets: known by inode. */
	SHARE_FILE_ADD,   /* [0] kind, [1] inode, [2] buffer or client file; fd: the daemon's end */
	SHARE_FILE_FIND,  /* [0] inode -> [0] kind, [1] buffer or file, [2] pid, [3] open flags;
			      DMABUF: the client holds the buffer then: [4] offset, [5] size,
			      data = struct share_bo */
	SHARE_FILE_PUT,   /* [0] inode, of a file that is not watched */
	SHARE_HANDLE_ADD, /* [0] file, [1] buffer -> [0] handle */
	SHARE_HANDLE_PUT, /* [0] file, [1] handle */
	SHARE_HANDLE_FIND,  /* [0] file, [1] handle -> as FILE_FIND of a DMABUF */
	SHARE_FILE_COMPUTE, /* [0] file, [1] 1 or 0: -EBUSY if its VM is a compute VM already */
	/* Queues. */
	SHARE_SDMA,       /* [0] id to give back, or ~0 to take one -> [0] id */
	SHARE_WATCH,      /* [0] pid of the debugged client, [1] watch point to give back, or ~0 to
			     take one -> [0] it */
	SHARE_QUEUES,     /* [0] +1 or -1, signed */
	SHARE_MES_ADD,    /* [0] queue, [1] vm, [2] priority, [3] hangs -> [0] struct share_turn */
	SHARE_MES_REMOVE, /* [0] queue */
	SHARE_MES_TICK,   /* data: struct share_need[] -> data: struct share_turn[] */
	SHARE_MES_LEFT,   /* [0] queue, [1] 1: off, 0: it stays */
	/* The whole device. */
	SHARE_RESET,      /* [0] enum kfd_reset_source */
	SHARE_MES_DEAD,   /* MES did not answer and nobody may reset the GPU */
	SHARE_SMI_STREAM, /* [0] +1 or -1 */
	SHARE_SMI,        /* [0] pid, [1] event; data: text */
	SHARE_PROCS,      /* -> data: pid_t[] of KFD processes */
	SHARE_PROC,       /* [0] pid, [1] enum share_about -> data: text, from that process */
	/* News. */
	SHARE_NEWS_EVICT,       /* stop the queues; answer the same */
	SHARE_NEWS_MES,         /* somebody waits for a place: tick */
	SHARE_NEWS_RESET_BEGIN, /* [0] source, [1] sequence number */
	SHARE_NEWS_RESET_END,   /* [0] count */
	SHARE_NEWS_SMI,         /* as SHARE_SMI */
	SHARE_NEWS_PROC,        /* [0] request, [1] about; answer with data */
};

enum share_about { SHARE_ABOUT_KFD, SHARE_ABOUT_FDINFO };
enum share_kind { SHARE_NO_FILE, SHARE_KFD_FILE, SHARE_DRM_FILE, SHARE_DMABUF };

struct share_msg {
	uint32_t op;
	int32_t err;
	uint32_t len, key;
	uint64_t a[SHARE_ARGS];
};

struct share_device {
	uint32_t version;
	struct vgpu_config config;
	bool rules[RULE_COUNT];
};

/* Of a buffer, as another process gets to know it. */
struct share_bo {
	uint64_t number, offset, size;
	uint32_t domain, kfd_flags;
	uint32_t cpu_access, evicted;
};

struct share_need {
	uint32_t queue;
	uint8_t need;   /* 0 nothing, 1 waits for memory, 2 work */
	uint8_t turned; /* its waves ran since it came on */
	uint8_t on;
};

struct share_turn {
	uint32_t queue;
	uint8_t act; /* enum share_act */
	uint8_t hqd, vmid;
};
enum share_act { SHARE_WAIT, SHARE_ENTER, SHARE_LEAVE };

/* The wave slots of the machine (cp/place.c). A word is 0 or one wave's, with all that the wave keeps
 * of its SIMD and CU, so a client takes one with a single exchange and can leave nothing half done;
 * the daemon clears those of a client that is gone. */
#define SHARE_WGPS  20
#define SHARE_SIMDS 4  /* of a WGP */
#define SHARE_SLOTS 16 /* of a SIMD */
enum {
	SHARE_SEAT_REGS = 32, /* bits 42:32, registers of the SIMD's file */
	SHARE_SEAT_LDS = 44,  /* bits 51:44, 512 bytes each, with the workgroup's first wave */
	SHARE_SEAT_HALF = 52, /* in which CU's LDS */
};

/* Shared memory; the daemon writes, but for clock_ahead and the seats. Plain loads: every word stands
 * alone. */
struct share_page {
	uint64_t clock_base;  /* CLOCK_MONOTONIC of the device's zero */
	uint64_t clock_ahead; /* of a virtual clock; moved by whoever skips time */
	uint64_t placed_vram, placed_gtt, placed_system, placed_preempt;
	uint64_t sys_used, ttm_used, kfd_vram_used; /* against the KFD limits */
	uint32_t in_reset, resets, mes_dead;
	uint32_t mes_waiting; /* queues without a place */
	uint32_t smi_streams;
	uint32_t files_shared; /* DRM files that a second process has */
	uint32_t clients;
	uint64_t seat[SHARE_WGPS][SHARE_SIMDS][SHARE_SLOTS]; /* client [31:0], and SHARE_SEAT_* */
};
_Static_assert(sizeof(struct share_page) <= SHARE_PAGE_SIZE, "one mapping");

#endif
