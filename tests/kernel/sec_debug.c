/* CRIU_OP, RUNTIME_ENABLE and DBG_TRAP as root on oneself. */
#include "probe.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void criu(int fd, const char *input, struct kfd_ioctl_criu_args a)
{
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, &a, input, "devices %u, bos %u, objects %u",
	    a.num_devices, a.num_bos, a.num_objects);
}

void section_criu(void)
{
	static uint32_t buffer[1024];
	const uint64_t b = (uintptr_t)buffer;
	int fd = kfd_open();

	event_new(fd, false);
	/* RESUME of a process without a VM is left out: the kernel follows a NULL pointer. */
	for (uint32_t op = KFD_CRIU_OP_PROCESS_INFO; op <= KFD_CRIU_OP_RESTORE; op++)
		criu(fd, text("op %u, the rest zero", op), (struct kfd_ioctl_criu_args){.op = op});
	criu(fd, "op 5", (struct kfd_ioctl_criu_args){.op = 5});
	criu(fd, "CHECKPOINT with buffers",
	     (struct kfd_ioctl_criu_args){.op = KFD_CRIU_OP_CHECKPOINT,
					  .devices = b,
					  .bos = b,
					  .priv_data = b,
					  .priv_data_size = 4096});
	for (uint32_t version = 0; version < 2; version++) {
		buffer[0] = version;
		criu(fd, text("RESTORE, 1 device, private data of version %u", version),
		     (struct kfd_ioctl_criu_args){.op = KFD_CRIU_OP_RESTORE,
						  .devices = b,
						  .priv_data = b,
						  .priv_data_size = 4096,
						  .num_devices = 1});
	}
	criu(fd, "RESUME, no such process",
	     (struct kfd_ioctl_criu_args){.op = KFD_CRIU_OP_RESUME, .pid = 999999});
	criu(fd, "RESUME, process 1, which has no KFD",
	     (struct kfd_ioctl_criu_args){.op = KFD_CRIU_OP_RESUME, .pid = 1});
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, NULL, "NULL");
	close(fd);
}

static void runtime(int fd)
{
	static const uint32_t modes[] = {0, 1, 1, 3, 0, 2, 3, 0xffffffff, 0};

	for (unsigned i = 0; i < COUNT_OF(modes); i++) {
		struct kfd_ioctl_runtime_enable_args a = {0x1000, modes[i], 0x77};

		TRY("RUNTIME_ENABLE", fd, AMDKFD_IOC_RUNTIME_ENABLE, &a,
		    text("step %u, mode 0x%x", i, modes[i]), "capabilities 0x%x",
		    a.capabilities_mask);
	}
	TRY("RUNTIME_ENABLE", fd, AMDKFD_IOC_RUNTIME_ENABLE, NULL, "NULL");
}

static void trap(int fd, const char *input, struct kfd_ioctl_dbg_trap_args a)
{
	TRY("DBG_TRAP", fd, AMDKFD_IOC_DBG_TRAP, &a, input);
}

static void trap_before(int fd, uint32_t me, struct kfd_runtime_info *info, int event_fd)
{
	struct kfd_ioctl_dbg_trap_args a = {.pid = me, .op = KFD_IOC_DBG_TRAP_ENABLE};

	trap(fd, "no such process, ENABLE", (struct kfd_ioctl_dbg_trap_args){.pid = 999999});
	trap(fd, "process 0, ENABLE", (struct kfd_ioctl_dbg_trap_args){.pid = 0});
	trap(fd, "process 1, which has no KFD, ENABLE", (struct kfd_ioctl_dbg_trap_args){.pid = 1});
	for (uint32_t op = 1; op < 17; op++)
		trap(fd, text("self, not enabled, op %u", op),
		     (struct kfd_ioctl_dbg_trap_args){.pid = me, .op = op});
	a.enable.dbg_fd = (uint32_t)-1;
	trap(fd, "self, ENABLE, event descriptor -1", a);
	a.enable.dbg_fd = (uint32_t)event_fd;
	a.enable.rinfo_size = sizeof(*info);
	trap(fd, "self, ENABLE, info NULL", a);
	a.enable.rinfo_ptr = (uintptr_t)info;
	a.enable.exception_mask = ~0ull;
	TRY("DBG_TRAP", fd, AMDKFD_IOC_DBG_TRAP, &a, "self, ENABLE", "info size %u, state %u",
	    a.enable.rinfo_size, info->runtime_state);
	trap(fd, "self, ENABLE, again", a);
}

static void snapshots(int fd, uint32_t me)
{
	static const uint32_t entry[] = {0, 1, 64, 4096};
	static uint8_t buf[16384];

	for (unsigned i = 0; i < COUNT_OF(entry); i++)
		for (uint32_t op = KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT;
		     op <= KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT; op++) {
			struct kfd_ioctl_dbg_trap_args a = {.pid = me, .op = op};

			a.snapshot.snapshot_buf_ptr = (uintptr_t)buf;
			a.snapshot.num = 4;
			a.snapshot.entry_size = entry[i];
			TRY("DBG_TRAP", fd, AMDKFD_IOC_DBG_TRAP, &a,
			    text("self, op %u, 4 entries of %u bytes", op, entry[i]),
			    "entries %u of %u bytes", a.snapshot.num, a.snapshot.entry_size);
		}
}

static void trap_other(int fd, struct kfd_runtime_info *info, int event_fd)
{
	struct kfd_ioctl_dbg_trap_args a = {.op = KFD_IOC_DBG_TRAP_ENABLE};
	int ready[2], pid;
	char c = 0;

	if (pipe(ready))
		probe_die("pipe");
	pid = fork();
	if (!pid) {
		kfd_open();
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	if (read(ready[0], &c, 1) != 1)
		probe_die("a child with a KFD of its own");
	a.pid = (uint32_t)pid;
	a.enable.dbg_fd = (uint32_t)event_fd;
	a.enable.rinfo_ptr = (uintptr_t)info;
	a.enable.rinfo_size = sizeof(*info);
	trap(fd, "another KFD process, not traced, ENABLE", a);
	a.op = KFD_IOC_DBG_TRAP_DISABLE;
	trap(fd, "another KFD process, not traced, DISABLE", a);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void section_debug(void)
{
	struct kfd_runtime_info info;
	uint32_t me = (uint32_t)getpid();
	int fd = kfd_open(), pipes[2];

	memset(&info, 0xee, sizeof(info));
	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		probe_die("pipe");
	runtime(fd);
	trap_before(fd, me, &info, pipes[1]);
	for (uint32_t op = 2; op < 17; op++)
		trap(fd, text("self, enabled, op %u, the rest zero", op),
		     (struct kfd_ioctl_dbg_trap_args){.pid = me, .op = op});
	snapshots(fd, me);
	trap(fd, "self, DISABLE",
	     (struct kfd_ioctl_dbg_trap_args){.pid = me, .op = KFD_IOC_DBG_TRAP_DISABLE});
	trap(fd, "self, DISABLE, again",
	     (struct kfd_ioctl_dbg_trap_args){.pid = me, .op = KFD_IOC_DBG_TRAP_DISABLE});
	trap_other(fd, &info, pipes[1]);
	TRY("DBG_TRAP", fd, AMDKFD_IOC_DBG_TRAP, NULL, "NULL");
	close(fd);
}
