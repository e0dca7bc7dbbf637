/* fork, clone, exec: whose state it is. */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void observe_map(int fd, const char *input)
{
	void *p = event_page_map(fd, 32768);

	observe("mmap", input, p == MAP_FAILED ? -1 : 0, errno, "%s", "");
}

static int observe_open(const char *input)
{
	int fd;

	errno = 0;
	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	observe("open", input, fd < 0 ? -1 : 0, errno, "%s", "");
	return fd;
}

static void store_in_grandchild(uint64_t *page)
{
	int pid = fork(), status;

	if (!pid) {
		*(volatile uint64_t *)(page + 1) = 1;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	observe("store", "to the parent's event page", WIFSIGNALED(status) ? -1 : 0, 0, "%s",
		WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "worked");
}

static void in_child(int fd, uint32_t id, uint64_t *page)
{
	struct kfd_ioctl_get_version_args v;
	struct kfd_ioctl_create_event_args a;
	unsigned char resident[8];
	int own;
	long r;

	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "child, parent's descriptor");
	observe("SET_EVENT", "child, parent's descriptor", event_set(fd, id), errno, "%s", "");
	TRY("ioctl", fd, _IOC(3, 'K', 0, 8), &v, "child, parent's descriptor, nr 0");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, NULL, "child, parent's descriptor, NULL");
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, NULL, "child, parent's descriptor, NULL");
	observe_map(fd, "child that never opened, parent's descriptor");
	errno = 0;
	r = mincore(page, 32768, resident);
	observe("mincore", "child: the parent's event page", r, errno, "%s", "");
	store_in_grandchild(page);
	own = observe_open("child");
	observe("SET_EVENT", "child's descriptor, parent's id", event_set(own, id), errno, "%s",
		"");
	r = event_create(own, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "child's descriptor", r, errno, "id %u", a.event_id);
	observe_map(fd, "child that opened, parent's descriptor");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v,
	    "child that opened, parent's descriptor");
	_exit(0);
}

/* Same memory, another process: vfork() and posix_spawn() look like this. */
static int clone_child(void *arg)
{
	struct kfd_ioctl_get_version_args v;
	int fd = *(int *)arg, own;

	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "CLONE_VM child, parent's descriptor");
	own = observe_open("CLONE_VM child");
	if (own >= 0)
		TRY("GET_VERSION", own, AMDKFD_IOC_GET_VERSION, &v, "CLONE_VM child's descriptor");
	_exit(0);
}

/* A child with a program of its own: the descriptor is there, its process is another. */
static void exec_child(bool vforked)
{
	int fd = open("/dev/kfd", O_RDWR);
	char fd_text[16], id_text[16];
	pid_t pid;

	if (fd < 0)
		probe_die("open /dev/kfd");
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(id_text, sizeof(id_text), "%u", event_new(fd, false));
	fflush(stdout);
	/* NOLINTBEGIN(*-unsafe-functions, clang-analyzer-*): vfork is what is asked about */
	pid = vforked ? vfork() : fork();
	/* NOLINTEND(*-unsafe-functions, clang-analyzer-*) */
	if (!pid) {
		execl("/proc/self/exe", "kfdprobe", "--after-exec",
		      vforked ? "vfork-exec" : "fork-exec", fd_text, id_text, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	observe("SET_EVENT", "parent after a child with a program of its own",
		event_set(fd, (uint32_t)atoi(id_text)), errno, "%s", "");
	close(fd);
}

void section_fork(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int fd = kfd_open(), pid;
	uint32_t id = event_new(fd, false);
	uint64_t *page = event_page_map(fd, 32768);

	if (page == MAP_FAILED)
		probe_die("mmap of the event page");
	pid = fork();
	if (!pid)
		in_child(fd, id, page);
	waitpid(pid, NULL, 0);
	observe_wait("parent's event after the child", wait_one(fd, id, 0));
	pid = clone(clone_child, stack + sizeof(stack), CLONE_VM | CLONE_FILES | SIGCHLD, &fd);
	waitpid(pid, NULL, 0);
	observe("SET_EVENT", "parent after all children", event_set(fd, id), errno, "%s", "");
	close(fd);
	exec_child(false);
	exec_child(true);
}

static void exec_self(bool cloexec)
{
	int fd = open("/dev/kfd", O_RDWR | (cloexec ? O_CLOEXEC : 0));
	char fd_text[16], id_text[16];
	uint32_t id;

	if (fd < 0)
		probe_die("open /dev/kfd");
	id = event_new(fd, false);
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(id_text, sizeof(id_text), "%u", id);
	execl("/proc/self/exe", "kfdprobe", "--after-exec", cloexec ? "exec-cloexec" : "exec",
	      fd_text, id_text, (char *)NULL);
	probe_die("execl");
}

void section_exec(void)
{
	exec_self(false);
}

void section_exec_cloexec(void)
{
	exec_self(true);
}

static void reopened(uint32_t id)
{
	struct kfd_ioctl_create_event_args a;
	int fd = observe_open("after exec, the old descriptor was O_CLOEXEC");
	long r;

	observe("SET_EVENT", "id from before exec", event_set(fd, id), errno, "%s", "");
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "after exec", r, errno, "id %u", a.event_id);
	close(fd);
}

void section_exec_after(int argc, char **argv)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = {.va_addr = 0x100000000, .size = 4096};
	struct kfd_ioctl_get_version_args v = {0};
	struct kfd_ioctl_create_event_args a;
	uint32_t id;
	int fd;
	long r;

	if (argc != 3)
		probe_die("--after-exec SECTION FD ID");
	probe_set_section(argv[0]);
	fd = atoi(argv[1]);
	id = (uint32_t)atoi(argv[2]);
	if (!strcmp(argv[0], "exec-cloexec")) {
		TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "descriptor was O_CLOEXEC");
		reopened(id);
		return;
	}
	if (strcmp(argv[0], "exec")) {
		TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "parent's descriptor");
		TRY("ioctl", fd, _IOC(3, 'K', 0, 8), &v, "parent's descriptor, nr 0");
		observe_map(fd, "parent's descriptor");
		fd = observe_open("child with a program of its own");
		observe("SET_EVENT", "parent's id", event_set(fd, id), errno, "%s", "");
		observe_map(atoi(argv[1]), "parent's descriptor, the child has opened");
		return;
	}
	/* No new open here: with one, the kernel dies when this process ends. */
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "descriptor kept over exec", "%u.%u",
	    v.major_version, v.minor_version);
	observe("SET_EVENT", "id from before exec", event_set(fd, id), errno, "%s", "");
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "descriptor kept over exec", r, errno, "id %u", a.event_id);
	observe_map(fd, "descriptor kept over exec");
	observe_wait("id from before exec, set", wait_one(fd, id, 0));
	alloc.gpu_id = NO_GPU;
	alloc.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	TRY("ALLOC_MEMORY_OF_GPU", fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &alloc,
	    "descriptor kept over exec");
}
