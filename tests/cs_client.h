/* A client of the render node's submission over Debian's libdrm_amdgpu: buffers, PM4 and SDMA words,
 * kernels (machine code as in vgpu_cp_client.h, which says what each does). */
#ifndef TESTS_CS_CLIENT_H
#define TESTS_CS_CLIENT_H

#pragma clang diagnostic ignored "-Wunused-function" /* the programs use what they need */

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xf86drm.h>

static int failures;

/* A call that is to succeed, to fail with an errno, a condition. libdrm returns -errno or sets it. */
#define TRUE(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "line %d: %s\n", __LINE__, #x);                            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
static int result_of(long r)
{
	return r == -1 && errno != EPERM ? -errno : (int)r;
}
#define GIVES(want, call)                                                                          \
	do {                                                                                       \
		int r_ = (errno = 0, result_of(call));                                             \
                                                                                                   \
		if (r_ != (want)) {                                                                \
			fprintf(stderr, "line %d: %s = %d, wanted %d\n", __LINE__, #call, r_,      \
				(int)(want));                                                      \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
#define OK(call) GIVES(0, call)

enum {
	IB = 0x10000, /* bytes of the buffer for packets */
	NO_TIME = 0,
};
#define MINUTE 60000000000ull

static const uint32_t K_COUNT[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0x7e040281,
	0xbf89fc07, 0xdcd60000, 0x00040201, 0xbfb00000,
};
static const uint32_t K_SLEEP[] = {
	0xf4040100, 0xf8000000, 0xbf89fc07, 0xbf83000a, 0xf4004182,
	0xf8000008, 0xbf89fc07, 0xbf068006, 0xbfa2fffa, 0xbfb00000,
};
static const uint32_t K_ILLEGAL[] = {0xbf800000, 0xbfff0000, 0xbfb00000};

struct buf {
	amdgpu_bo_handle bo;
	amdgpu_va_handle range;
	uint64_t va, size;
	volatile uint32_t *p;
	uint32_t handle;
};

static int fd = -1;
static amdgpu_device_handle dev;
static amdgpu_context_handle ctx;
static struct buf ib, code, data;
static uint32_t at; /* dwords in ib */

static struct buf buf_new(uint64_t size)
{
	struct amdgpu_bo_alloc_request r = {
		.alloc_size = size,
		.phys_alignment = 4096,
		.preferred_heap = AMDGPU_GEM_DOMAIN_GTT,
	};
	struct buf b = {.size = size};
	void *p = NULL;

	OK(amdgpu_bo_alloc(dev, &r, &b.bo));
	OK(amdgpu_va_range_alloc(dev, amdgpu_gpu_va_range_general, size, 4096, 0, &b.va, &b.range,
				 0));
	OK(amdgpu_bo_va_op(b.bo, 0, size, b.va, 0, AMDGPU_VA_OP_MAP));
	OK(amdgpu_bo_cpu_map(b.bo, &p));
	OK(amdgpu_bo_export(b.bo, amdgpu_bo_handle_type_kms, &b.handle));
	b.p = p;
	return b;
}

static void buf_free(struct buf *b)
{
	OK(amdgpu_bo_cpu_unmap(b->bo));
	OK(amdgpu_bo_va_op(b->bo, 0, b->size, b->va, 0, AMDGPU_VA_OP_UNMAP));
	OK(amdgpu_va_range_free(b->range));
	OK(amdgpu_bo_free(b->bo));
}

static void client_open(void)
{
	uint32_t major, minor;

	fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	TRUE(fd >= 0);
	OK(amdgpu_device_initialize(fd, &major, &minor, &dev));
	OK(amdgpu_cs_ctx_create(dev, &ctx));
	ib = buf_new(IB);
	code = buf_new(4096);
	data = buf_new(1 << 20);
}

static void client_close(void)
{
	buf_free(&data);
	buf_free(&code);
	buf_free(&ib);
	OK(amdgpu_cs_ctx_free(ctx));
	OK(amdgpu_device_deinitialize(dev));
	OK(close(fd));
}

/* ---- packets ---------------------------------------------------------------- */

#define PKT3(op, n) (3u << 30 | ((n) - 1u) << 16 | (op) << 8)
static void put(uint32_t w)
{
	ib.p[at++] = w;
}
static void put64(uint64_t v)
{
	put((uint32_t)v);
	put((uint32_t)(v >> 32));
}

static void put_write(uint64_t va, uint32_t v)
{
	put(PKT3(0x37, 4));
	put(5u << 8 | 1u << 20);
	put64(va);
	put(v);
}

/* Until the word at va is v. */
static void put_wait(uint64_t va, uint32_t v)
{
	put(PKT3(0x3c, 6));
	put(3 | 1u << 4);
	put64(va);
	put(v);
	put(~0u);
	put(4);
}

static void put_sh(uint32_t reg, uint32_t v)
{
	put(PKT3(0x76, 2) | 2);
	put(reg - 0x2c00);
	put(v);
}

/* One workgroup of 32 lanes whose s[0:1] are args. */
static void put_dispatch(uint64_t entry, uint64_t args)
{
	put_sh(0x2e07, 32);
	put_sh(0x2e08, 1);
	put_sh(0x2e09, 1);
	put_sh(0x2e0c, (uint32_t)(entry >> 8));
	put_sh(0x2e0d, (uint32_t)(entry >> 40));
	put_sh(0x2e12, 0);
	put_sh(0x2e13, 2u << 1);
	put_sh(0x2e40, (uint32_t)args);
	put_sh(0x2e41, (uint32_t)(args >> 32));
	put(PKT3(0x15, 4) | 2);
	put(1);
	put(1);
	put(1);
	put(1 | 1u << 15);
}

static void put_copy(uint64_t to, uint64_t from, uint32_t bytes)
{
	put(1);
	put(bytes - 1);
	put(0);
	put64(from);
	put64(to);
}

/* ---- submissions ------------------------------------------------------------ */

struct what {
	amdgpu_context_handle ctx; /* NULL: ours */
	unsigned ip, ring;
	uint64_t va;           /* 0: from `from` on in ib */
	uint32_t from, dwords; /* 0: to its end */
	struct amdgpu_cs_fence *deps;
	unsigned n_deps;
	amdgpu_bo_handle uf;
	unsigned uf_offset;
	amdgpu_bo_list_handle list;
};

static struct amdgpu_cs_fence last; /* of what was submitted */

static int submit_what(struct what w)
{
	struct amdgpu_cs_ib_info info = {
		.ib_mc_address = w.va ? w.va : ib.va + w.from * 4ull,
		.size = w.dwords ? w.dwords : at - w.from,
	};
	struct amdgpu_cs_request r = {
		.ip_type = w.ip,
		.ring = w.ring,
		.number_of_ibs = 1,
		.ibs = &info,
		.resources = w.list,
		.dependencies = w.deps,
		.number_of_dependencies = w.n_deps,
		.fence_info = {.handle = w.uf, .offset = w.uf_offset},
	};
	int err = amdgpu_cs_submit(w.ctx ? w.ctx : ctx, 0, &r, 1);

	last = (struct amdgpu_cs_fence){
		.context = w.ctx ? w.ctx : ctx,
		.ip_type = w.ip,
		.ring = w.ring,
		.fence = r.seq_no,
	};
	return err;
}
#define SUBMIT(...) submit_what((struct what){__VA_ARGS__})
#define COMPUTE     .ip = AMDGPU_HW_IP_COMPUTE
#define SDMA        .ip = AMDGPU_HW_IP_DMA

/* 1: over; 0: not yet; -errno. */
static int over(struct amdgpu_cs_fence *f, uint64_t ns)
{
	uint32_t expired = 7;
	int r = amdgpu_cs_query_fence_status(f, ns, 0, &expired);

	return r ? r : (int)expired;
}

static uint32_t kernel(const uint32_t *words, size_t bytes)
{
	static uint32_t used;
	uint32_t where = used;

	memcpy((void *)(code.p + where / 4), words, bytes);
	used += (uint32_t)((bytes + 255) & ~255ul);
	return where;
}
#define KERNEL(k) (code.va + kernel(k, sizeof(k)))

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
