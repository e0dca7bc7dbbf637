/* Groups: secondary processes (CREATE_PROCESS, since 1.19). */
#ifndef IOCTL_CONTEXT_H
#define IOCTL_CONTEXT_H

#include "harness.h"
#include "queue.h"

/* What the functions of the harness talk to. */
struct client {
	int kfd, drm;
};

static void become(const struct client *c)
{
	kfd = c->kfd;
	drm = c->drm;
}

static struct client secondary(void)
{
	struct client c = {open("/dev/kfd", O_RDWR | O_CLOEXEC),
			   open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC)};

	TRUE(c.kfd >= 0 && c.drm >= 0);
	become(&c);
	WANT(0, CREATE_PROCESS, NULL);
	return c;
}

static void acquire_own(void)
{
	struct kfd_ioctl_acquire_vm_args a = {(uint32_t)drm, gpu};

	WANT(0, ACQUIRE_VM, &a);
}

static bool proc_has(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/%s", getpid(), name);
	return access(path, R_OK) == 0;
}

static uint64_t available(void)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = gpu};

	WANT(0, AVAILABLE_MEMORY, &a);
	return a.available;
}

/* Writes the event's slot and raises the interrupt. */
static void signal_by(struct sdma *s, uint64_t page, uint32_t id)
{
	sdma_send(s,
		  (uint32_t[]){5, (uint32_t)(page + id * 8), (uint32_t)((page + id * 8) >> 32), 1},
		  4);
	sdma_send(s, (uint32_t[]){6, id}, 2);
}

/* A process of its own in everything but memory and pid. */
static void group_contexts(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.size = 4096}, bo;
	struct kfd_ioctl_acquire_vm_args av;
	struct kfd_ioctl_create_queue_args q = {.queue_type = 2, .ring_size = 4096};
	struct kfd_ioctl_dbg_trap_args t = {.pid = (uint32_t)getpid()};
	struct kfd_ioctl_get_version_args v;
	struct kfd_ioctl_destroy_event_args d = {0};
	struct svm_call svm = {0x10000, 4096, 0, 1, {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, 1}}};
	struct client first, second, third;
	uint32_t id;
	int status;
	pid_t pid;

	acquire();
	first = (struct client){kfd, drm};
	bo = alloc(1 << 20, KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
	TRUE((uint32_t)bo.handle == 0);
	id = event_create(KFD_IOC_EVENT_MEMORY, false);
	second = secondary();
	WANT(EINVAL, CREATE_PROCESS, NULL); /* once per descriptor */
	check(__LINE__, "size and direction", KFD_NR_CREATE_PROCESS,
	      ioctl(kfd, _IOC(3, 'K', 0x27, 8), &v), EINVAL);
	/* nothing of the primary's is there */
	q.gpu_id = a.gpu_id = gpu;
	WANT(ESRCH, CREATE_QUEUE, &q);
	a.flags = GTT;
	WANT(ENODEV, ALLOC_MEMORY_OF_GPU, &a);
	d.event_id = id;
	WANT(EINVAL, DESTROY_EVENT, &d);
	TRUE(event_create(KFD_IOC_EVENT_MEMORY, false) == id);
	av = (struct kfd_ioctl_acquire_vm_args){(uint32_t)first.drm, gpu};
	WANT(EINVAL, ACQUIRE_VM, &av); /* somebody's compute VM already */
	acquire_own();
	TRUE((uint32_t)alloc(4096, KFD_IOC_ALLOC_MEM_FLAGS_VRAM).handle == 0);
	/* what a secondary process must not */
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
	a.gpu_id = 0x1234;
	WANT(EOPNOTSUPP, ALLOC_MEMORY_OF_GPU, &a);
	a.size = 0;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);
	check(__LINE__, "SVM", KFD_NR_SVM, ioctl(kfd, AMDKFD_IOC_SVM + (8 << 16), &svm),
	      EOPNOTSUPP);
	check(__LINE__, "short SVM", KFD_NR_SVM, ioctl(kfd, AMDKFD_IOC_SVM, &svm), EINVAL);
	WANT(EOPNOTSUPP, DBG_TRAP, &t);
	/* ids, and what sysfs says */
	third = secondary();
	TRUE(proc_has("pasid") && proc_has("context_0/pasid") && proc_has("context_1/queues"));
	TRUE(proc_number("vram_%u", gpu) == 1 << 20);
	TRUE(proc_number("context_0/vram_%u", gpu) == 4096);
	TRUE(proc_number("context_1/vram_%u", gpu) == 0);
	close(second.kfd);
	TRUE(!proc_has("context_0") && proc_has("context_1"));
	close(second.drm);
	second = secondary();
	TRUE(proc_has("context_0/pasid")); /* the lowest free one */
	/* inherited it answers nobody, and a child's own open is a primary */
	pid = fork();
	if (!pid) {
		failures = 0;
		WANT(EBADF, GET_VERSION, &v);
		close(kfd);
		kfd = open("/dev/kfd", O_RDWR);
		WANT(0, CREATE_PROCESS, NULL);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	become(&third);
	WANT(0, GET_VERSION, &v);
	become(&first);
	d.event_id = id;
	WANT(0, DESTROY_EVENT, &d);
}

/* Interrupts, faults and memory of one are not the other's. */
static void group_context_life(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args page, page2;
	struct kfd_ioctl_smi_events_args smi = {0};
	struct kfd_ioctl_create_event_args e;
	struct kfd_ioctl_profiler_args prof = {.op = 0};
	struct client first, second, again;
	uint32_t id, id2, memory, memory2;
	struct kfd_event_data d;
	uint64_t mask = 1ull << 11 | 1ull << 12, before, used;
	struct sdma s, s2;
	char text[256], want[64];
	ssize_t n;

	acquire();
	first = (struct client){kfd, drm};
	smi.gpuid = gpu;
	WANT(0, SMI_EVENTS, &smi);
	TRUE(write((int)smi.anon_fd, &mask, 8) == 8);
	page = mapped(32768, GTT);
	cpu_map(&page);
	e = (struct kfd_ioctl_create_event_args){.event_type = KFD_IOC_EVENT_SIGNAL,
						 .auto_reset = 1,
						 .event_page_offset = page.handle};
	WANT(0, CREATE_EVENT, &e);
	id = e.event_id;
	memory = event_create(KFD_IOC_EVENT_MEMORY, true);
	s = sdma_create();
	before = available();
	second = secondary();
	acquire_own();
	page2 = mapped(32768, GTT);
	cpu_map(&page2);
	e.event_page_offset = page2.handle;
	WANT(0, CREATE_EVENT, &e);
	id2 = e.event_id;
	TRUE(id2 == id);
	memory2 = event_create(KFD_IOC_EVENT_MEMORY, true);
	s2 = sdma_create();
	TRUE(s2.id == 0 && proc_has("context_0/queues/0/size"));
	signal_by(&s2, page2.va_addr, id2);
	TRUE(wait_data(id2, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	become(&first);
	TRUE(wait_data(id, 0, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	signal_by(&s, page.va_addr, id);
	TRUE(wait_data(id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	/* the secondary's fault stops and tells the secondary */
	sdma_send(&s2, (uint32_t[]){5, 0x123000, 0x7a00, 1}, 4);
	become(&second);
	TRUE(wait_data(memory2, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	signal_by(&s2, page2.va_addr, id2);
	TRUE(wait_data(id2, 100, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	become(&first);
	TRUE(wait_data(memory, 0, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	signal_by(&s, page.va_addr, id);
	TRUE(wait_data(id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	/* one lock of the counters, whoever of them has it */
	if (geteuid() == 0) {
		prof.pmc.gpu_id = gpu;
		prof.pmc.lock = 1;
		WANT(0, PROFILER, &prof);
		become(&second);
		WANT(EBUSY, PROFILER, &prof);
		prof.pmc.lock = 0;
		WANT(EINVAL, PROFILER, &prof);
		become(&first);
		WANT(0, PROFILER, &prof);
		become(&second);
		prof.pmc.lock = 1;
		WANT(0, PROFILER, &prof);
		become(&first);
	}
	/* A mapping keeps the file, and the file the process; the last one takes all of it. */
	used = available();
	TRUE(used < before);
	munmap((void *)page2.va_addr, 32768);
	munmap(s2.ring, 4096);
	munmap((void *)(uintptr_t)s2.rptr, 4096);
	close(second.kfd);
	TRUE(proc_has("context_0/pasid") && available() == used);
	munmap((char *)(uintptr_t)s2.doorbell - s2.slot, 8192);
	TRUE(!proc_has("context_0/pasid"));
	TRUE(available() == before);
	if (geteuid() == 0)
		WANT(0, PROFILER, &prof); /* what it held, too */
	n = read((int)smi.anon_fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	snprintf(want, sizeof(want), "c %x ", getpid());
	TRUE(!strncmp(text, want, strlen(want)));
	snprintf(want, sizeof(want), "\nd %x ", getpid());
	TRUE(strstr(text, want) != NULL);
	/* Its render node's VM is free for another. */
	again = (struct client){open("/dev/kfd", O_RDWR | O_CLOEXEC), second.drm};
	become(&again);
	WANT(0, CREATE_PROCESS, NULL);
	acquire_own();
	s2 = sdma_create();
	page2 = mapped(32768, GTT);
	e.event_page_offset = page2.handle;
	WANT(0, CREATE_EVENT, &e);
	signal_by(&s2, page2.va_addr, e.event_id);
	TRUE(wait_data(e.event_id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	become(&first);
	signal_by(&s, page.va_addr, id);
	TRUE(wait_data(id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
}

/* Memory that somebody else wants stops every process, and each gets its own messages. */
static void group_context_pressure(void)
{
	struct kfd_ioctl_smi_events_args smi = {0};
	uint64_t mask = 1ull << 8 | 1ull << 9, end = now_ns() + patience * 1000000ull;
	struct client first;
	char text[1024] = "";
	size_t n = 0;

	acquire();
	first = (struct client){kfd, drm};
	smi.gpuid = gpu;
	WANT(0, SMI_EVENTS, &smi);
	TRUE(write((int)smi.anon_fd, &mask, 8) == 8);
	secondary();
	acquire_own();
	sdma_create();
	while (now_ns() < end && n < sizeof(text) - 1) {
		ssize_t r = read((int)smi.anon_fd, text + n, sizeof(text) - 1 - n);

		n += r > 0 ? (size_t)r : 0;
		text[n] = 0;
		if (strstr(text, "\na "))
			break;
		usleep(1000);
	}
	TRUE(!strncmp(text, "9 ", 2) && strstr(text, "\n9 "));
	/* Said before it is done. */
	while (proc_number("context_0/stats_%u/evicted_ms", gpu) < 100 && now_ns() < end)
		usleep(1000);
	TRUE(proc_number("context_0/stats_%u/evicted_ms", gpu) >= 100);
	become(&first);
}

#endif
