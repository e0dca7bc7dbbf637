/* Submission by libdrm_amdgpu: what becomes of jobs that do not end (see virt_cs.c). */
#include "cs_child.h"

#define RESET  1 /* AMDGPU_CTX_QUERY2_FLAGS_* */
#define GUILTY 4

static uint64_t state2(amdgpu_context_handle c)
{
	uint64_t flags = ~0ull;

	OK(amdgpu_cs_query_reset_state2(c, &flags));
	return flags;
}

/* What no packet processor knows: the ring is reset, the job is lost, its context's ring too. */
IN_CHILD(bad_packet, "")
{
	amdgpu_context_handle other, later;
	uint32_t state, hangs;

	client_open();
	OK(amdgpu_cs_ctx_create(dev, &other));
	at = 0;
	put(PKT3(0x7b, 1));
	put(0);
	OK(SUBMIT(COMPUTE));
	TRUE(over(&last, MINUTE) == -ECANCELED);
	GIVES(-ECANCELED, SUBMIT(COMPUTE));
	TRUE(state2(ctx) == RESET && state2(other) == RESET);
	OK(amdgpu_cs_query_reset_state(ctx, &state, &hangs));
	TRUE(state == AMDGPU_CTX_UNKNOWN_RESET && !hangs);
	OK(amdgpu_cs_query_reset_state(ctx, &state, &hangs));
	TRUE(state == AMDGPU_CTX_NO_RESET);
	OK(amdgpu_cs_ctx_create(dev, &later));
	TRUE(state2(later) == 0);
	/* Another ring of the context, and every other context, goes on. */
	at = 0;
	put_write(data.va, 6);
	OK(SUBMIT(COMPUTE, .ring = 1));
	TRUE(over(&last, MINUTE) == 1);
	OK(SUBMIT(COMPUTE, .ctx = other));
	TRUE(over(&last, MINUTE) == 1);
	TRUE(data.p[0] == 6);
	OK(amdgpu_cs_ctx_free(other));
	OK(amdgpu_cs_ctx_free(later));
	client_close();
}

/* Waves that cannot go on are killed, and the ring gets through the rest of the job. */
IN_CHILD(bad_kernel, "")
{
	client_open();
	at = 0;
	put_dispatch(KERNEL(K_ILLEGAL), data.va);
	put(PKT3(0x46, 1)); /* behind them */
	put(7 | 4u << 8);
	put_write(data.va + 0x20, 8);
	OK(SUBMIT(COMPUTE));
	TRUE(over(&last, MINUTE) == -ENODATA);
	TRUE(data.p[8] == 8);
	GIVES(-ENODATA, SUBMIT(COMPUTE));
	TRUE(state2(ctx) == RESET);
	at = 0;
	put_write(data.va, 7);
	OK(SUBMIT(COMPUTE, .ring = 3));
	TRUE(over(&last, MINUTE) == 1 && data.p[0] == 7);
	client_close();
}

/* Nobody hears of a fault but the log and INFO: the job is over when its time is. */
struct fault_info {
	uint64_t addr;
	uint32_t status, vmhub;
};

static struct fault_info fault_info(void)
{
	struct fault_info info = {.addr = ~0ull};
	struct drm_amdgpu_info a = {
		.return_pointer = (uintptr_t)&info, .return_size = sizeof(info), .query = 0x23};

	OK(ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &a));
	return info;
}

static void recover_gpu(void)
{
	char text[64];
	int f = open("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", O_RDONLY);

	TRUE(f >= 0 && read(f, text, sizeof(text)) >= 0);
	close(f);
}

IN_CHILD(page_faults, "lockup_ms=200")
{
	struct fault_info info;
	uint64_t start = now_ns();

	client_open();
	at = 0;
	put_write(0x7000000000, 1);
	OK(SUBMIT(COMPUTE));
	TRUE(over(&last, MINUTE) == -ECANCELED);
	TRUE(now_ns() - start >= 200000000);
	info = fault_info();
	TRUE(info.addr == 0x7000000000 && info.status >> 18 & 1);
	/* The buffer itself is not there. */
	OK(SUBMIT(COMPUTE, .ring = 1, .va = 0x7100000000, .dwords = 8));
	TRUE(over(&last, MINUTE) == -ECANCELED);
	TRUE(fault_info().addr == 0x7100000000);
	TRUE(state2(ctx) == RESET);
	client_close();
}

/* A wave's: it stands until something ends it. */
IN_CHILD(page_fault_of_a_wave, "")
{
	uint64_t end = now_ns() + MINUTE;

	client_open();
	at = 0;
	put_dispatch(KERNEL(K_COUNT), 0x7200000000);
	OK(SUBMIT(COMPUTE));
	while (fault_info().addr != 0x7200000000 && now_ns() < end)
		usleep(1000);
	TRUE(fault_info().addr == 0x7200000000);
	TRUE(over(&last, NO_TIME) == 0);
	recover_gpu();
	TRUE(over(&last, MINUTE) == -ECANCELED);
	client_close();
}

/* A wave that never ends is killed; a wait that is never met is no wave. */
IN_CHILD(endless, "lockup_ms=200")
{
	client_open();
	data.p[0x200] = (uint32_t)data.va;
	data.p[0x201] = (uint32_t)(data.va >> 32);
	at = 0;
	put_dispatch(KERNEL(K_SLEEP), data.va + 0x800);
	OK(SUBMIT(COMPUTE));
	TRUE(over(&last, MINUTE) == -ENODATA);
	at = 0;
	put_wait(data.va, 77);
	OK(SUBMIT(COMPUTE, .ring = 1));
	TRUE(over(&last, MINUTE) == -ECANCELED);
	client_close();
}

/* Nothing smaller than the GPU's reset helps SDMA, and that has a culprit. */
IN_CHILD(bad_sdma, "lockup_ms=200")
{
	amdgpu_context_handle other;
	struct amdgpu_cs_fence waits;
	uint32_t begin;

	client_open();
	OK(amdgpu_cs_ctx_create(dev, &other));
	at = 0;
	put_wait(data.va, 1);
	OK(SUBMIT(COMPUTE, .ctx = other));
	waits = last;
	begin = at;
	put(0x7f);
	OK(SUBMIT(SDMA, .from = begin));
	TRUE(over(&last, MINUTE) == -ECANCELED);
	TRUE(over(&waits, MINUTE) == -ECANCELED); /* what was on the other rings is lost, too */
	TRUE((state2(ctx) & (RESET | GUILTY)) == (RESET | GUILTY));
	TRUE((state2(other) & (RESET | GUILTY)) == RESET);
	at = 0;
	put_write(data.va, 9);
	GIVES(-ECANCELED, SUBMIT(COMPUTE)); /* whatever the ring */
	OK(SUBMIT(COMPUTE, .ctx = other, .ring = 1));
	TRUE(over(&last, MINUTE) == 1 && data.p[0] == 9);
	OK(amdgpu_cs_ctx_free(other));
	client_close();
}

/* Somebody resets the GPU: nobody is guilty. */
IN_CHILD(gpu_reset, "")
{
	client_open();
	at = 0;
	put_wait(data.va, 1);
	OK(SUBMIT(COMPUTE));
	recover_gpu();
	TRUE(over(&last, MINUTE) == -ECANCELED);
	TRUE(state2(ctx) == RESET);
	at = 0;
	put_write(data.va, 2);
	OK(SUBMIT(COMPUTE, .ring = 1));
	TRUE(over(&last, MINUTE) == 1 && data.p[0] == 2);
	client_close();
}

/* A file that is closed in the middle: one second, then its jobs are gone. */
IN_CHILD(closed_with_jobs, "")
{
	client_open();
	at = 0;
	put_wait(data.va, 1);
	for (unsigned i = 0; i < 5; i++)
		OK(SUBMIT(COMPUTE));
	OK(SUBMIT(SDMA, .deps = &last, .n_deps = 1));
	/* The context is left to the file: freeing it would wait for what is queued. */
	buf_free(&data);
	buf_free(&code);
	buf_free(&ib);
	OK(amdgpu_device_deinitialize(dev));
	OK(close(fd));
	/* The rings are as before. */
	client_open();
	at = 0;
	put_write(data.va, 4);
	for (unsigned i = 0; i < 4; i++) {
		OK(SUBMIT(COMPUTE, .ring = i));
		TRUE(over(&last, MINUTE) == 1);
	}
	client_close();
}
