/* Version, clocks, apertures and the calls that set or ask something of one GPU. */
#include "probe.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void clocks(int fd, uint32_t gpu)
{
	struct kfd_ioctl_get_clock_counters_args a;
	uint64_t raw = clock_of(CLOCK_MONOTONIC_RAW), boot = clock_of(CLOCK_BOOTTIME);

	memset(&a, 0xee, sizeof(a));
	a.gpu_id = gpu;
	TRY("GET_CLOCK_COUNTERS", fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &a, text("gpu 0x%x", gpu),
	    "gpu %llu, freq %llu, cpu is MONOTONIC_RAW: %d, system is BOOTTIME: %d, gpu_id 0x%x",
	    (unsigned long long)a.gpu_clock_counter, (unsigned long long)a.system_clock_freq,
	    a.cpu_clock_counter - raw < 500000000u, a.system_clock_counter - boot < 500000000u,
	    a.gpu_id);
}

static void apertures(int fd)
{
	static const uint32_t counts[] = {0, 1, 2, 3, 16, 0xffffffff};
	struct kfd_ioctl_get_process_apertures_args old;
	struct kfd_process_device_apertures out[16];

	memset(&old, 0xee, sizeof(old));
	TRY("GET_PROCESS_APERTURES", fd, AMDKFD_IOC_GET_PROCESS_APERTURES, &old, "filled with 0xee",
	    "nodes %u, pad 0x%x, [0] gpu_id 0x%x lds_base 0x%llx", old.num_of_nodes, old.pad,
	    old.process_apertures[0].gpu_id, (unsigned long long)old.process_apertures[0].lds_base);
	for (unsigned i = 0; i < 2 * COUNT_OF(counts); i++) {
		struct kfd_ioctl_get_process_apertures_new_args a = {
			.kfd_process_device_apertures_ptr = i & 1 ? 0 : (uintptr_t)out,
			.num_of_nodes = counts[i / 2],
		};

		memset(out, 0xee, sizeof(out));
		TRY("GET_PROCESS_APERTURES_NEW", fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a,
		    text("%u nodes, %s", counts[i / 2], i & 1 ? "NULL" : "buffer"),
		    "nodes %u, [0] gpu_id 0x%x", a.num_of_nodes, out[0].gpu_id);
	}
}

static void per_gpu(int fd, uint32_t gpu)
{
	struct kfd_ioctl_get_available_memory_args mem = {.available = 0x77, .gpu_id = gpu};
	struct kfd_ioctl_get_tile_config_args tile = {.num_tile_configs = 1, .gpu_id = gpu};
	struct kfd_ioctl_set_memory_policy_args policy = {.gpu_id = gpu};
	struct kfd_ioctl_set_scratch_backing_va_args scratch = {0x100000, gpu, 0};
	struct kfd_ioctl_set_trap_handler_args trap = {.tba_addr = 0x1000, .gpu_id = gpu};
	struct kfd_ioctl_smi_events_args smi = {.gpuid = gpu, .anon_fd = 0x77};
	const char *in = text("gpu 0x%x", gpu);

	TRY("AVAILABLE_MEMORY", fd, AMDKFD_IOC_AVAILABLE_MEMORY, &mem, in, "0x%llx",
	    (unsigned long long)mem.available);
	TRY("GET_TILE_CONFIG", fd, AMDKFD_IOC_GET_TILE_CONFIG, &tile, in, "%u %u %u",
	    tile.num_tile_configs, tile.num_macro_tile_configs, tile.gb_addr_config);
	TRY("SET_MEMORY_POLICY", fd, AMDKFD_IOC_SET_MEMORY_POLICY, &policy, in);
	TRY("SET_SCRATCH_BACKING_VA", fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &scratch, in);
	TRY("SET_TRAP_HANDLER", fd, AMDKFD_IOC_SET_TRAP_HANDLER, &trap, in);
	TRY("SMI_EVENTS", fd, AMDKFD_IOC_SMI_EVENTS, &smi, in, "fd 0x%x", smi.anon_fd);
}

static void policies(int fd)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct kfd_ioctl_set_memory_policy_args a = {
			.gpu_id = NO_GPU,
			.default_policy = i & 1 ? 2 : 0,
			.alternate_policy = i & 2 ? 2 : 0,
		};

		TRY("SET_MEMORY_POLICY", fd, AMDKFD_IOC_SET_MEMORY_POLICY, &a,
		    text("policies %u %u", a.default_policy, a.alternate_policy));
	}
}

/* The kernel refuses them all alike since DBG_TRAP took their place. */
static void deprecated(int fd)
{
	static const struct {
		unsigned long cmd;
		const char *name;
	} c[] = {
		{AMDKFD_IOC_DBG_REGISTER_DEPRECATED, "DBG_REGISTER"},
		{AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED, "DBG_UNREGISTER"},
		{AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED, "DBG_ADDRESS_WATCH"},
		{AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED, "DBG_WAVE_CONTROL"},
	};
	uint32_t args[4] = {NO_GPU};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		TRY(c[i].name, fd, c[i].cmd, args, "valid");
		TRY(c[i].name, fd, c[i].cmd, NULL, "NULL");
	}
}

static void xnack(int fd)
{
	static const int32_t modes[] = {-1, 0, 1, 5};

	for (unsigned i = 0; i < COUNT_OF(modes); i++) {
		struct kfd_ioctl_set_xnack_mode_args a = {modes[i]};

		TRY("SET_XNACK_MODE", fd, AMDKFD_IOC_SET_XNACK_MODE, &a, text("%d", modes[i]), "%d",
		    a.xnack_enabled);
	}
	TRY("SET_XNACK_MODE", fd, AMDKFD_IOC_SET_XNACK_MODE, NULL, "NULL");
}

void section_info(void)
{
	static const uint32_t gpus[] = {0, NO_GPU, 0xffffffff};
	struct kfd_ioctl_get_version_args v = {0};
	int fd = kfd_open();

	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, "valid", "%u.%u", v.major_version,
	    v.minor_version);
	for (unsigned i = 0; i < COUNT_OF(gpus); i++)
		clocks(fd, gpus[i]);
	apertures(fd);
	for (unsigned i = 0; i < COUNT_OF(gpus); i++)
		per_gpu(fd, gpus[i]);
	policies(fd);
	deprecated(fd);
	xnack(fd);
	close(fd);
}
