/* Pure parts of the virtual KFD: sizes, ids, limits, personalities, rules. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kfd/internal.h"
#include "kfd/why.h"
#include "testdata.h"
#include "drm/sysfs.h"

static void configure(uint32_t cus, uint64_t ram, uint64_t gtt)
{
	cr_assert_eq(vgpu_config_load(), 0);
	vgpu_config.cus = cus;
	vgpu_config.ram_bytes = ram;
	vgpu_config.gtt_bytes = gtt;
	vgpu_props_init(&vgpu_props);
}

/* Lines of several threads do not mix: each is one write, as a socket of messages shows. */
Test(log, a_report_is_one_message)
{
	int sv[2], old = dup(2);
	char text[64] = "";

	cr_assert_geq(old, 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	cr_assert_geq(old, 0);
	dup2(sv[1], 2);
	vgpu_report("queue %u: %s", 7, "too late");
	dup2(old, 2);
	cr_assert_gt(recv(sv[0], text, sizeof(text) - 1, MSG_DONTWAIT), 0);
	cr_assert_str_eq(text, "vgpu: queue 7: too late\n");
}

/* The client's memory where a sandbox refuses process_vm_readv(2) and its like. */
Test(user, bad_addresses_are_errors_in_a_sandbox_too)
{
	enum { BYTES = 10000 };
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(f) / sizeof(*f), f};
	static uint8_t there[BYTES], here[BYTES];
	uint8_t *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(two, MAP_FAILED);
	cr_assert_eq(mprotect(two + 4096, 4096, PROT_READ), 0);
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	for (unsigned i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 7);
	cr_expect_eq(user_read(here, (uintptr_t)there, BYTES), 0);
	cr_expect_arr_eq(here, there, BYTES);
	memset(there, 0, BYTES);
	cr_expect_eq(user_write((uintptr_t)there, here, BYTES), 0);
	cr_expect_arr_eq(there, here, BYTES);
	cr_expect_eq(user_read(here, 0xdead000, 8), -EFAULT);
	cr_expect_eq(user_write(0xdead000, here, 8), -EFAULT);
	cr_expect_eq(user_write((uintptr_t)two + 4090, here, 12), -EFAULT, "half of it");
}

Test(props, crc16)
{
	/* CRC-16/ARC's check value, which is the kernel's polynomial and start value. */
	cr_expect_eq(vgpu_crc16(0, "123456789", 9), 0xbb3d);
	cr_expect_eq(vgpu_crc16(0, "", 0), 0);
}

Test(props, save_area)
{
	configure(40, 128ull << 30, 64ull << 30);
	cr_expect_eq(vgpu_props.ctl_stack_size, 0x4000);
	cr_expect_eq(vgpu_props.cwsr_size, 19185664);
	cr_expect_eq(vgpu_props.debug_memory_size, 40960);
	cr_expect_eq(vgpu_props.cwsr_area, 19226624);
	configure(32, 128ull << 30, 64ull << 30);
	cr_expect_eq(vgpu_props.cwsr_size, 15351808);
	cr_expect_eq(vgpu_props.debug_memory_size, 0x8000);
	cr_expect_eq(vgpu_props.cwsr_area, 0xeac000);
}

/* The documented vectors, when they are at hand. */
Test(props, save_area_vectors)
{
	const char *path = testdata("vectors/queue-save-area.json");
	json_t *root, *cases, *c;
	size_t i, checked = 0;

	if (!path) {
		printf("SKIP: vectors/queue-save-area.json is not here\n");
		return;
	}
	root = json_load_file(path, 0, NULL);
	cr_assert(root);
	cases = json_object_get(root, "vectors");
	cr_assert(json_is_array(cases));
	json_array_foreach(cases, i, c)
	{
		const char *gfx = json_string_value(json_object_get(c, "gfx"));
		const char *rule = json_string_value(json_object_get(c, "rule"));

		if (!gfx || !rule || strcmp(gfx, "gfx1151") || strcmp(rule, "current"))
			continue;
		configure((uint32_t)json_integer_value(json_object_get(c, "cus")), 128ull << 30,
			  64ull << 30);
		cr_expect_eq(vgpu_props.cwsr_size, json_integer_value(json_object_get(c, "cwsr")));
		cr_expect_eq(vgpu_props.ctl_stack_size,
			     json_integer_value(json_object_get(c, "ctl_stack")));
		cr_expect_eq(vgpu_props.debug_memory_size,
			     json_integer_value(json_object_get(c, "debug")));
		cr_expect_eq(vgpu_props.cwsr_area, json_integer_value(json_object_get(c, "area")));
		checked++;
	}
	cr_expect_gt(checked, 0u);
	printf("%zu save-area vectors of this part\n", checked);
	json_decref(root);
}

Test(props, meminfo)
{
	char text[128];
	int n = meminfo_text("MemTotal:       24683904 kB\nMemFree:   1 kB\nCached:  2 kB\n"
			     "MemAvailable:   3 kB\nMemTotalX: 4 kB",
			     8ull << 30, 7ull << 30, text, sizeof(text));

	cr_expect_str_eq(text, "MemTotal:        8388608 kB\nMemFree:         7340032 kB\n"
			       "Cached:  2 kB\nMemAvailable:    7340032 kB\nMemTotalX: 4 kB\n");
	cr_expect_eq(n, (int)strlen(text));
	for (int len = 0; len <= n; len++)
		cr_expect_eq(meminfo_text(text, 1, 1, (char[128]){0}, (size_t)len), -1);
}

struct cache_file {
	const char *path;
	char text[300];
	unsigned files;
};

static void collect_cache(void *ctx, enum sysfs_kind kind, const char *path, const char *text,
			  size_t len)
{
	struct cache_file *f = ctx;

	cr_assert_eq(kind, SYSFS_FILE);
	f->files++;
	if (f->path && !strcmp(path, f->path))
		snprintf(f->text, sizeof(f->text), "%.*s", (int)len, text);
}

static void cache_says(unsigned cpus, const char *path, const char *text)
{
	struct cache_file f = {.path = path};

	cpu_caches_emit(cpus, collect_cache, &f);
	cr_expect_eq(f.files, cpus * 4 * 10);
	cr_expect_str_eq(f.text, text, "%s of %u", path, cpus);
}

Test(cpu_caches, as_the_kernel_writes_them)
{
	struct cache_file none = {0};

	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index0/type", "Data\n");
	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index0/size", "48K\n");
	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index0/number_of_sets", "64\n");
	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index1/shared_cpu_list", "1\n");
	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index2/shared_cpu_map", "2\n");
	cache_says(2, "sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "0-1\n");
	cache_says(2, "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_map", "3\n");
	cache_says(2, "sys/devices/system/cpu/cpu0/cache/index3/number_of_sets", "32768\n");
	cache_says(20, "sys/devices/system/cpu/cpu13/cache/index3/id", "1\n");
	cache_says(20, "sys/devices/system/cpu/cpu13/cache/index3/shared_cpu_list", "8-15\n");
	cache_says(20, "sys/devices/system/cpu/cpu17/cache/index3/shared_cpu_list", "16-19\n");
	cache_says(20, "sys/devices/system/cpu/cpu17/cache/index3/shared_cpu_map", "f0000\n");
	cache_says(70, "sys/devices/system/cpu/cpu33/cache/index2/shared_cpu_map",
		   "00,00000002,00000000\n");
	cache_says(70, "sys/devices/system/cpu/cpu69/cache/index3/shared_cpu_map",
		   "3f,00000000,00000000\n");
	cache_says(1024, "sys/devices/system/cpu/cpu0/cache/index0/id", "0\n");
	cpu_caches_emit(1025, collect_cache, &none);
	cr_expect_eq(none.files, 0u);
}

Test(cpu_caches, paths)
{
	static const char *const others[] = {"/sys/devices/system/cpu/cpu3",
					     "/sys/devices/system/cpu/cpu3/cached",
					     "/sys/devices/system/cpu/cpux/cache",
					     "/sys/devices/system/cpu/cache",
					     "/sys/devices/system/node/node0/cpulist",
					     "/sys/devices/system/node/cpu3/cache",
					     "/sys/devices/system/node/node0/cpu3/caches"};
	unsigned cpu = 0;

	cr_expect_str_eq(cpu_caches_path("/sys/devices/system/cpu/cpu3/cache", &cpu), "");
	cr_expect_eq(cpu, 3u);
	cr_expect_str_eq(cpu_caches_path("/sys/devices/system/cpu/cpu12/cache/index0/id", &cpu),
			 "/index0/id");
	cr_expect_eq(cpu, 12u);
	cr_expect_str_eq(cpu_caches_path("/sys/devices/system/node/node1/cpu7/cache/", &cpu), "/");
	cr_expect_eq(cpu, 7u);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_null(cpu_caches_path(others[i], &cpu), "%s", others[i]);
}

Test(props, gpu_id_follows_memory)
{
	uint32_t a;

	configure(40, 128ull << 30, 64ull << 30);
	a = vgpu_props.gpu_id;
	cr_expect(a > 0 && a < 65536);
	configure(40, 128ull << 30, 32ull << 30);
	cr_expect_neq(vgpu_props.gpu_id, a);
	configure(40, 128ull << 30, 64ull << 30);
	cr_expect_eq(vgpu_props.gpu_id, a);
	cr_expect_eq(vgpu_props.capability, 0x2803a280);
	cr_expect_eq(vgpu_props.debug_prop, 0x5d7);
}

Test(props, harvested_cus_are_whole_wgps)
{
	unsigned n = 0;

	configure(32, 128ull << 30, 64ull << 30);
	for (unsigned se = 0; se < 2; se++) {
		for (unsigned sh = 0; sh < 2; sh++) {
			uint32_t m = vgpu_props.cu_bitmap[se][sh];

			n += (unsigned)__builtin_popcount(m);
			cr_expect_eq(m & 0x55555555, m >> 1 & 0x55555555);
		}
	}
	cr_expect_eq(n, 32);
}

Test(limits, formula)
{
	struct kfd_limits l;
	struct kfd_charge c;
	const char *why = NULL;

	/* The documented 128 GiB machine. */
	configure(40, 130148818944, 120259084288);
	kfd_limits_init(&l, 130148818944, 120259084288);
	cr_expect_eq(l.sys_max, 126504630912);
	cr_expect_eq(l.ttm_max, 120259084288);
	/* Small machines keep half. */
	kfd_limits_init(&l, 2ull << 30, 1ull << 30);
	cr_expect_eq(l.sys_max, ((2ull << 30) - (2ull << 24)) / 2);

	kfd_limits_init(&l, 130148818944, 120259084288);
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_VRAM, 4096,
			      true);
	cr_expect(c.sys == 4096 && c.ttm == 4096 && c.vram == 0, "GTT is looked at first");
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_VRAM, 4096, true);
	cr_expect(c.sys == 4096 && c.ttm == 4096 && c.vram == 4096);
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_VRAM, 4096, false);
	cr_expect(c.sys == 0 && c.ttm == 0 && c.vram == 4096);
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 4096, true);
	cr_expect(c.sys == 4096 && c.ttm == 0 && c.vram == 0);
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, 8192, true);
	cr_expect(c.sys == 0 && c.ttm == 0 && c.vram == 0);

	/* Exactly the limit fits; a page more names the limit that refused. */
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_GTT, l.ttm_max, true);
	cr_expect_eq(kfd_limits_reserve(&l, &c, &why), 0);
	cr_expect_eq(kfd_limits_available(&l), 0);
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_GTT, 4096, true);
	cr_expect_eq(kfd_limits_reserve(&l, &c, &why), -ENOMEM);
	cr_expect_str_eq(why, "TTM memory limit");
	c = kfd_limits_charge(KFD_IOC_ALLOC_MEM_FLAGS_GTT, l.ttm_max, true);
	kfd_limits_release(&l, &c);
	cr_expect(l.sys_used == 0 && l.ttm_used == 0 && l.vram_used == 0);
}

Test(idr, lowest_free_first)
{
	struct idr i = {0};
	int x;

	for (int n = 0; n < 100; n++)
		cr_assert_eq(idr_alloc(&i, &x, 100), n);
	cr_expect_eq(idr_alloc(&i, &x, 100), -ENOSPC);
	idr_remove(&i, 40);
	idr_remove(&i, 7);
	cr_expect_null(idr_find(&i, 7));
	cr_expect_eq(idr_alloc(&i, &x, 100), 7);
	cr_expect_eq(idr_alloc(&i, &x, 100), 40);
	cr_expect_eq(i.used, 100);
	cr_expect_null(idr_find(&i, 1ull << 40));
	free(i.slot);
}

Test(rules, by_name)
{
	cr_expect_eq(vgpu_rule_set("no_such_rule", true), -ENOENT);
	cr_expect(vgpu_rule(RULE_vm_fault_evicts));
	cr_expect_eq(vgpu_rule_set("vm_fault_evicts", false), 0);
	cr_expect(!vgpu_rule(RULE_vm_fault_evicts));
	for (unsigned r = 0; r < RULE_COUNT; r++)
		cr_expect(strlen(vgpu_rule_text((enum vgpu_rule)r)) > 20, "%s says nothing",
			  vgpu_rule_name((enum vgpu_rule)r));
}

Test(personality, two_kernels)
{
	const struct vgpu_kernel *k;

	cr_assert_eq(vgpu_config_load(), 0);
	strcpy(vgpu_config.kernel, "6.12");
	k = vgpu_kernel();
	cr_expect(k->kfd_minor == 17 && k->nr_end == 0x27 && k->event_page_mmap);
	strcpy(vgpu_config.kernel, "7.3");
	k = vgpu_kernel();
	cr_expect(k->kfd_minor == 23 && k->nr_end == 0x29 && !k->event_page_mmap);
}

/* ---- sysfs text ---- */

struct tree {
	unsigned files, links, caches;
	char properties[4096], bank[256];
};

static void collect(void *ctx, enum sysfs_kind kind, const char *path, const char *text, size_t len)
{
	struct tree *t = ctx;

	t->files += kind == SYSFS_FILE;
	t->links += kind == SYSFS_LINK;
	if (strstr(path, "/nodes/1/caches/") && kind == SYSFS_FILE)
		t->caches++;
	if (strstr(path, "/nodes/1/properties") && len < sizeof(t->properties))
		memcpy(t->properties, text, len);
	if (strstr(path, "/nodes/1/mem_banks/0/properties") && len < sizeof(t->bank))
		memcpy(t->bank, text, len);
}

Test(sysfs, topology)
{
	static const char *const order[] = {
		"cpu_cores_count 0\n",
		"simd_count 80\n",
		"mem_banks_count 1\n",
		"caches_count ",
		"io_links_count 1\n",
		"simd_id_base 2147487744\n",
		"max_waves_per_simd 16\n",
		"lds_size_in_kb 64\n",
		"num_gws 64\n",
		"array_count 4\n",
		"gfx_target_version 110501\n",
		"device_id 5510\n",
		"drm_render_minor 128\n",
		"num_sdma_queues_per_engine 6\n",
		"cwsr_size 19185664\n",
		"ctl_stack_size 16384\n",
		"local_mem_size 0\n",
		"capability 671326848\n",
		"debug_prop 1495\n",
		"unique_id 0\n",
		"num_xcc 1\n",
		"max_engine_clk_ccompute ",
	};
	struct tree t = {0};
	const char *at, *next;
	char count[32];

	configure(40, 128ull << 30, 64ull << 30);
	sysfs_generate(SYSFS_KFD, collect, &t);
	cr_expect_gt(t.files, 90);
	cr_expect_eq(t.caches, 86);
	snprintf(count, sizeof(count), "caches_count %u\n", t.caches);
	cr_expect(strstr(t.properties, count));
	at = t.properties;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		next = strstr(at, order[i]);
		cr_expect(next, "%s is missing or out of order", order[i]);
		if (next)
			at = next;
	}
	cr_expect(strstr(t.bank, "heap_type 1\nsize_in_bytes 68719476736\n"), "%s", t.bank);
	cr_expect_null(strstr(t.properties, "capability2"));
}

/* What the log says of a refusal: something of each kind of call that a stranger gets wrong first. */
Test(vgpu_kfd, refusals_in_words)
{
	cr_expect(strstr(kfd_why(KFD_NR_ACQUIRE_VM, EBUSY), "another file"));
	cr_expect(strstr(kfd_why(KFD_NR_CREATE_QUEUE, EINVAL), "power of two"));
	cr_expect(strstr(kfd_why(KFD_NR_MAP_MEMORY_TO_GPU, ENOMEM), "handle"));
	cr_expect(strstr(kfd_why(KFD_NR_SVM, EBADF), "another process"));
	cr_expect(strstr(kfd_why(0x77, ENOTTY), "no call of that number"));
	cr_expect_null(kfd_why(KFD_NR_GET_VERSION, EINVAL));
	cr_expect(strstr(kfd_why_mmap(KFD_MMAP_TYPE_DOORBELL | 4096), "8192 bytes"));
	cr_expect(strstr(kfd_why_mmap(0), "render node"));
}

static void collect_ip(void *ctx, enum sysfs_kind kind, const char *path, const char *text,
		       size_t len)
{
	char *to = ctx;
	const char *at = strstr(path, "/ip_discovery/die/0/");

	if (at && kind != SYSFS_DIR)
		sprintf(to + strlen(to), "%s %.*s%s", at + 20, (int)len, text,
			kind == SYSFS_LINK ? "\n" : "");
}

/* Blocks by their number, and a name for each. */
Test(sysfs, ip_discovery)
{
	static const char *const want[] = {
		"11/0/hw_id 11\n",
		"11/0/major 11\n",
		"11/0/minor 5\n",
		"11/0/revision 1\n",
		"42/0/major 6\n",
		"42/0/minor 1\n",
		"GC 11\n",
		"SDMA0 42\n",
		"NBIF 108\n",
		"108/0/major 7\n",
		"108/0/minor 11\n",
		"11/0/harvest 0x0\n",
		"11/0/num_instance 0\n",
	};
	char text[4096] = "";

	configure(40, 128ull << 30, 64ull << 30);
	sysfs_generate(SYSFS_DRM, collect_ip, text);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		cr_expect(strstr(text, want[i]), "no %s in\n%s", want[i], text);
}
