/* The virtual device: what it is configured to be, its clock, its named rules. */
#ifndef VGPU_DEVICE_H
#define VGPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Configuration: defaults describe a Strix Halo (40 CUs, 1 GiB carve-out); VGPU_CONFIG names an
 * INI file of "key = value" lines that override them, VGPU_SET holds more, comma separated.
 * Only the virtual device reads these variables; no client does. Keys are the field names
 * without "_bytes"; sizes take K, M, G; clock = real|virtual; rule.NAME = 0|1. */
struct vgpu_config {
	uint32_t cus;        /* 40 */
	uint64_t ram_bytes;  /* RAM visible to the pretended Linux (MemTotal) */
	uint64_t vram_bytes; /* carve-out */
	uint64_t gtt_bytes;  /* ttm.pages_limit * 4096 */
	bool fragmented;     /* no two pages of memory lie together */
	uint32_t tables;     /* page tables that can be had, whatever VRAM is free; 0: no limit */
	char kernel[16];     /* personality: "6.12" or "7.3" */
	bool isa;            /* false: no instruction executes; every dispatch raises an error */
	uint32_t workers;    /* 0: one per online CPU */
	uint32_t jit; /* enum jit_mode: 0 off, 1 compile what is hot, 2 all, waiting, 3 lock step */
	uint64_t seed;
	bool deterministic; /* one worker, seeded quanta */
	uint32_t
		delay; /* memory answers up to so many instructions late (isa/delay.h); 0: at once */
	bool waits;    /* waits = report: tell of waits that are missing */
	uint32_t mes_version, mec_version, sdma_version;
	bool clock_virtual;    /* run ahead instead of following real time */
	uint32_t gpus;         /* 1; 0: the module is loaded but no device was probed */
	uint32_t pci_bus;      /* 0xc5: the device is 0000:c5:00.0 */
	uint32_t subsystem;    /* subsystem vendor | subsystem device << 16 */
	uint32_t render_minor; /* 128 */
	uint32_t lockup_ms;    /* amdgpu.lockup_timeout for all rings; 0: the driver's own */
	uint32_t evict_ms; /* another client of the memory evicts the process so often; 0: never */
	uint32_t hang_queue;   /* hang = queue:N; MES cannot take queues of that id off. ~0: none */
	bool gpu_recovery;     /* false: amdgpu.gpu_recovery=0, a hung GPU stays hung */
	uint32_t hz;           /* 250: jiffies, for rounding of timeouts */
	bool check_visibility; /* check = visibility */
};
extern struct vgpu_config vgpu_config;
/* Reads the environment once; later calls return the first answer.
 * 0, or -EINVAL after printing file, line, key and value. */
int vgpu_config_load(void);

/* The device is part of a static program (trap/): no library can be loaded, no symbol looked up. */
extern bool vgpu_is_static;

/* One clock: nanoseconds since the device appeared. Timeouts, delays, restore timers and
 * timestamps all use it. It follows CLOCK_MONOTONIC or jumps ahead to the next deadline. */
uint64_t vgpu_clock_ns(void);
uint64_t vgpu_clock_gpu(void); /* 100 MHz shader realtime counter */
/* clock_virtual only: makes the clock read at least ns. Whoever waits for a deadline with nothing
 * else to do calls it instead of sleeping. */
void vgpu_clock_advance(uint64_t ns);
/* How far the clock has run ahead of real time, ns: added to host clocks that clients compare. */
uint64_t vgpu_clock_ahead(void);
/* A clock that several processes have: its zero in CLOCK_MONOTONIC ns, and the word that says how
 * far it is ahead. NULL: this process's own again. */
void vgpu_clock_share(uint64_t zero, uint64_t *ahead);

/* Named rules: every kernel check and machine behaviour that can be switched. rules.def rows:
 * RULE(name, default, "what it is and where the kernel or hardware says so"). A personality is a
 * set of switches; a planted defect is one switch. Set with VGPU_SET=rule.NAME=0|1. */
enum vgpu_rule {
#define RULE(name, def, text) RULE_##name,
#include "rules.def"
#undef RULE
	RULE_COUNT
};
extern bool vgpu_rule_on[RULE_COUNT];
static inline bool vgpu_rule(enum vgpu_rule r)
{
	return vgpu_rule_on[r];
}
/* 0, or -ENOENT for a name that is no rule. */
int vgpu_rule_set(const char *name, bool on);
const char *vgpu_rule_name(enum vgpu_rule r);
const char *vgpu_rule_text(enum vgpu_rule r);

static inline struct timespec vgpu_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

/* One line to the device log (VGPU_LOG=FILE, default none), the way dmesg would have it. */
void vgpu_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool vgpu_log_on(void); /* VGPU_LOG names a file */
/* A report for the person running it: device log and stderr. */
void vgpu_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Appends a report of the kind `what` to the file path, past the hooks, and frees it; NULL: there was
 * no memory to write it. Says so when it cannot. */
void vgpu_append(const char *what, const char *path, char *report);

#endif
