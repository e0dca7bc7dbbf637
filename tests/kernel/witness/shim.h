/* What the kernel's KFD files need of a kernel, in user space and single-threaded: locks do
 * nothing, a sleep is a timeout that has passed, lists and ids are the simplest that work.
 *
 * Names are the kernel's, because its files use them. Included before everything they include. */
#ifndef TESTS_KERNEL_SHIM_H
#define TESTS_KERNEL_SHIM_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/types.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* ---- types and small macros --------------------------------------------------------------- */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef unsigned gfp_t;

#define __user
#define GFP_KERNEL                  0u
#define PAGE_SHIFT                  12
#define PAGE_SIZE                   4096ul
#define ERESTARTSYS                 512
#define READ_ONCE(x)                (x)
#define WRITE_ONCE(x, v)            ((x) = (v))
#define unlikely(x)                 (x)
#define likely(x)                   (x)
#define IS_ENABLED(x)               0
#define ALIGN(x, a)                 (((x) + (a) - 1) / (a) * (a))
#define min(a, b)                   ((a) < (b) ? (a) : (b))
#define max(a, b)                   ((a) > (b) ? (a) : (b))
#define min_t(t, a, b)              min((t)(a), (t)(b))
#define container_of(p, t, m)       ((t *)((char *)(p) - offsetof(t, m)))
#define check_mul_overflow(a, b, r) __builtin_mul_overflow(a, b, r)
#define IS_ERR(p)                   ((uintptr_t)(p) > (uintptr_t)-4096)
#define PTR_ERR(p)                  ((int)(intptr_t)(p))
#define ERR_PTR(e)                  ((void *)(intptr_t)(e))

#define pr_debug(...)             ((void)0)
#define pr_debug_ratelimited(...) ((void)0)
#define pr_warn(...)              ((void)0)
#define pr_err(...)               ((void)0)
#define dev_dbg(...)              ((void)0)
#define dev_warn(...)             ((void)0)
#define dev_err(...)              ((void)0)
#define WARN_ON(x)                (x)
#define WARN_ONCE(x, ...)         (x)
#define WARN(x, ...)              (x)

/* ---- memory ------------------------------------------------------------------------------- */

#define kzalloc(n, gfp)     calloc(1, n)
#define kmalloc(n, gfp)     malloc(n)
#define kcalloc(n, s, gfp)  calloc(n, s)
#define kvzalloc(n, gfp)    calloc(1, n)
#define kfree(p)            free(p)
#define kvfree(p)           free(p)
#define kfree_rcu(p, field) free(p)

static inline int get_order(unsigned long bytes)
{
	int order = 0;

	while (bytes > PAGE_SIZE << order)
		order++;
	return order;
}

static inline unsigned long __get_free_pages(gfp_t gfp, int order)
{
	(void)gfp;
	return (unsigned long)calloc(1, PAGE_SIZE << order);
}

static inline void free_pages(unsigned long p, int order)
{
	(void)order;
	free((void *)p);
}

static inline unsigned long copy_from_user(void *to, const void *from, unsigned long n)
{
	if (!from)
		return n;
	memcpy(to, from, n);
	return 0;
}

static inline unsigned long copy_to_user(void *to, const void *from, unsigned long n)
{
	if (!to)
		return n;
	memcpy(to, from, n);
	return 0;
}

/* ---- lists and wait queues ---------------------------------------------------------------- */

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h->prev = h;
}

static inline void list_add(struct list_head *e, struct list_head *h)
{
	e->next = h->next;
	e->prev = h;
	h->next->prev = e;
	h->next = e;
}

static inline void list_del_init(struct list_head *e)
{
	e->next->prev = e->prev;
	e->prev->next = e->next;
	INIT_LIST_HEAD(e);
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

#define list_add_rcu            list_add
#define list_del_rcu            list_del_init
#define list_for_each_entry_rcu list_for_each_entry
#define list_for_each_entry(pos, head, member)                                                     \
	for (pos = container_of((head)->next, __typeof__(*pos), member); &pos->member != (head);   \
	     pos = container_of(pos->member.next, __typeof__(*pos), member))

typedef struct {
	struct list_head entry;
} wait_queue_entry_t;
typedef struct {
	struct list_head head;
} wait_queue_head_t;

static inline void init_waitqueue_head(wait_queue_head_t *q)
{
	INIT_LIST_HEAD(&q->head);
}

static inline void init_wait(wait_queue_entry_t *w)
{
	INIT_LIST_HEAD(&w->entry);
}

static inline void add_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *w)
{
	list_add(&w->entry, &q->head);
}

static inline void remove_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *w)
{
	(void)q;
	list_del_init(&w->entry);
}

static inline bool waitqueue_active(wait_queue_head_t *q)
{
	return q->head.next != &q->head;
}

/* Waking takes an entry off its queue (autoremove_wake_function). */
static inline void wake_up_all(wait_queue_head_t *q)
{
	while (waitqueue_active(q))
		list_del_init(q->head.next);
}

/* ---- locks, tasks, time ------------------------------------------------------------------- */

struct mutex {
	int unused;
};
typedef struct {
	int unused;
} spinlock_t;
typedef struct {
	int counter;
} atomic_t;
struct rcu_head {
	int unused;
};
struct task_struct {
	int pid, tgid;
	char comm[16];
};

#define mutex_init(m)          ((void)(m))
#define mutex_destroy(m)       ((void)(m))
#define mutex_lock(m)          ((void)(m))
#define mutex_unlock(m)        ((void)(m))
#define spin_lock_init(l)      ((void)(l))
#define spin_lock(l)           ((void)(l))
#define spin_unlock(l)         ((void)(l))
#define rcu_read_lock()        ((void)0)
#define rcu_read_unlock()      ((void)0)
#define srcu_read_lock(s)      0
#define srcu_read_unlock(s, i) ((void)(i))
#define call_rcu(head, fn)     fn(head)
#define synchronize_rcu()      ((void)0)
#define atomic_read(a)         ((a)->counter)
#define atomic_inc(a)          ((void)(a)->counter++)

#define MAX_SCHEDULE_TIMEOUT    LONG_MAX
#define TASK_RUNNING            0
#define TASK_INTERRUPTIBLE      1
#define set_current_state(s)    ((void)(s))
#define __set_current_state(s)  ((void)(s))
#define fatal_signal_pending(t) 0
#define signal_pending(t)       0
#define schedule_timeout(t)     0l
#define send_sig(sig, task, p)  ((void)(task))

enum { HZ = 250 };

static inline unsigned long msecs_to_jiffies(unsigned ms)
{
	return ((unsigned long)ms * HZ + 999) / 1000;
}

static inline unsigned jiffies_to_msecs(unsigned long j)
{
	return (unsigned)(j * 1000 / HZ);
}

/* ---- byte queues and files ---------------------------------------------------------------- */

/* Never wraps: what was taken out is moved away. */
struct kfifo {
	unsigned size, len;
	char *data;
};

static inline int kfifo_alloc(struct kfifo *f, unsigned size, gfp_t gfp)
{
	(void)gfp;
	*f = (struct kfifo){size, 0, malloc(size)};
	return f->data ? 0 : -ENOMEM;
}

static inline void kfifo_free(struct kfifo *f)
{
	free(f->data);
}

static inline unsigned kfifo_in(struct kfifo *f, const void *from, unsigned n)
{
	memcpy(f->data + f->len, from, n);
	f->len += n;
	return n;
}

static inline int kfifo_out(struct kfifo *f, void *to, unsigned n)
{
	memcpy(to, f->data, n);
	memmove(f->data, f->data + n, f->len - n);
	f->len -= n;
	return (int)n;
}

#define kfifo_len(f)      ((size_t)(f)->len)
#define kfifo_avail(f)    ((int)((f)->size - (f)->len))
#define kfifo_is_empty(f) (!(f)->len)

typedef unsigned __poll_t;
typedef long ktime_t;
struct poll_table_struct;
struct inode;
struct file {
	void *private_data;
};
struct file_operations {
	void *owner;
	__poll_t (*poll)(struct file *f, struct poll_table_struct *t);
	ssize_t (*read)(struct file *f, char *to, size_t n, loff_t *off);
	ssize_t (*write)(struct file *f, const char *from, size_t n, loff_t *off);
	int (*release)(struct inode *i, struct file *f);
};

#define THIS_MODULE        NULL
#define EPOLLIN            1u
#define EPOLLRDNORM        0x40u
#define CAP_SYS_ADMIN      21
#define __printf(a, b)     __attribute__((format(printf, a, b)))
#define poll_wait(f, q, t) ((void)(f), (void)(q), (void)(t))
#define access_ok(p, n)    ((p) != NULL || !(n))
#define ktime_to_ns(t)     (t)

/* ---- ids (shim_idr.c) --------------------------------------------------------------------- */

struct idr {
	struct idr_slot {
		int id;
		void *ptr;
	} *slots; /* sorted by id */
	unsigned n, cap;
};

void idr_init(struct idr *i);
void idr_destroy(struct idr *i);
/* The lowest free id in [start, end); end <= 0 means up to INT_MAX. */
int idr_alloc(struct idr *i, void *ptr, int start, int end, gfp_t gfp);
void *idr_find(const struct idr *i, unsigned long id);
void *idr_remove(struct idr *i, unsigned long id);
/* The first entry that is not NULL with an id of at least *id. */
void *idr_get_next(const struct idr *i, u32 *id);

#define idr_for_each_entry(idr, entry, id)                                                         \
	for (id = 0; ((entry) = idr_get_next(idr, &(id))) != NULL; id++)
#define idr_for_each_entry_continue(idr, entry, id)                                                \
	for (; ((entry) = idr_get_next(idr, &(id))) != NULL; id++)

#endif
