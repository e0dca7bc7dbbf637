/* Configuration of the virtual device from VGPU_CONFIG and VGPU_SET. */
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "share/share.h"

bool vgpu_is_static;
struct vgpu_config vgpu_config = {
	.cus = 40,
	.ram_bytes = 127098456ull << 10,
	.vram_bytes = 1ull << 30,
	.gtt_bytes = 0, /* filled by the load: half of RAM, TTM's default pages_limit */
	.kernel = "6.12",
	.isa = true,
	.jit = 1,
	.mes_version = 0x83,
	.mec_version = 32,
	.sdma_version = 14,
	.gpus = 1,
	.pci_bus = 0xc5,
	.subsystem = 0x1458u << 16 | 0x1458u,
	.render_minor = 128,
	.hang_queue = UINT32_MAX,
	.hz = 250,
	.gpu_recovery = true,
};

/* What each process of a shared device may have for itself; the rest is the device's. */
static bool own_field(const void *field)
{
	return field == &vgpu_config.isa || field == &vgpu_config.workers ||
	       field == &vgpu_config.jit || field == &vgpu_config.seed ||
	       field == &vgpu_config.deterministic || field == &vgpu_config.evict_ms ||
	       field == &vgpu_config.lockup_ms || field == &vgpu_config.hang_queue ||
	       field == &vgpu_config.check_visibility || field == &vgpu_config.delay ||
	       field == &vgpu_config.waits;
}

enum key_kind {
	KEY_U32,
	KEY_SIZE,
	KEY_BOOL,
	KEY_KERNEL,
	KEY_CLOCK,
	KEY_HANG,
	KEY_CHECK,
	KEY_WAITS,
	KEY_U64,
};

#define FIELD(k, kind, f, lo, hi) {k, kind, &vgpu_config.f, lo, hi}
static const struct key {
	const char *name;
	enum key_kind kind;
	void *field;
	uint64_t lo, hi;
} keys[] = {
	FIELD("cus", KEY_U32, cus, 2, 40),
	FIELD("ram", KEY_SIZE, ram_bytes, 1ull << 26, 1ull << 42),
	FIELD("vram", KEY_SIZE, vram_bytes, 1ull << 12, 1ull << 40),
	FIELD("gtt", KEY_SIZE, gtt_bytes, 1ull << 20, 1ull << 42),
	FIELD("fragmented", KEY_BOOL, fragmented, 0, 1),
	FIELD("tables", KEY_U32, tables, 0, UINT32_MAX),
	FIELD("kernel", KEY_KERNEL, kernel, 0, 0),
	FIELD("isa", KEY_BOOL, isa, 0, 1),
	FIELD("workers", KEY_U32, workers, 0, 1024),
	FIELD("jit", KEY_U32, jit, 0, 3),
	FIELD("seed", KEY_U64, seed, 0, UINT64_MAX),
	FIELD("deterministic", KEY_BOOL, deterministic, 0, 1),
	FIELD("delay", KEY_U32, delay, 0, 1000000),
	FIELD("waits", KEY_WAITS, waits, 0, 1),
	FIELD("mes_version", KEY_U32, mes_version, 0, 0xfff),
	FIELD("mec_version", KEY_U32, mec_version, 0, 0xffff),
	FIELD("sdma_version", KEY_U32, sdma_version, 0, 0xffff),
	FIELD("clock", KEY_CLOCK, clock_virtual, 0, 1),
	FIELD("gpus", KEY_U32, gpus, 0, 1),
	FIELD("pci_bus", KEY_U32, pci_bus, 1, 255),
	FIELD("subsystem", KEY_U32, subsystem, 0, UINT32_MAX),
	FIELD("render_minor", KEY_U32, render_minor, 128, 191),
	FIELD("hz", KEY_U32, hz, 100, 1000),
	FIELD("hang", KEY_HANG, hang_queue, 0, 1023),
	FIELD("gpu_recovery", KEY_BOOL, gpu_recovery, 0, 1),
	FIELD("check", KEY_CHECK, check_visibility, 0, 1),
	FIELD("lockup_ms", KEY_U32, lockup_ms, 0, 1000000),
	FIELD("evict_ms", KEY_U32, evict_ms, 0, 1000000),
};

static int parse_number(const char *s, bool size, uint64_t *out)
{
	char *end;
	unsigned shift = 0;
	uint64_t v;

	if (*s == '-')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno || end == s)
		return -EINVAL;
	if (size && *end) {
		switch (*end++) {
		case 'K':
		case 'k':
			shift = 10;
			break;
		case 'M':
		case 'm':
			shift = 20;
			break;
		case 'G':
		case 'g':
			shift = 30;
			break;
		default:
			return -EINVAL;
		}
	}
	if (*end || (shift && v >> (64 - shift)))
		return -EINVAL;
	*out = v << shift;
	return 0;
}

static int set_key(const struct key *k, const char *value)
{
	uint64_t v = 0;

	switch (k->kind) {
	case KEY_KERNEL:
		if (strcmp(value, "6.12") && strcmp(value, "7.3"))
			return -EINVAL;
		snprintf(k->field, sizeof(vgpu_config.kernel), "%s", value);
		return 0;
	case KEY_HANG: /* queue:N or none */
		if (!strcmp(value, "none")) {
			*(uint32_t *)k->field = UINT32_MAX;
			return 0;
		}
		if (strncmp(value, "queue:", 6) || parse_number(value + 6, false, &v) || v > k->hi)
			return -EINVAL;
		*(uint32_t *)k->field = (uint32_t)v;
		return 0;
	case KEY_CHECK:
		if (strcmp(value, "none") && strcmp(value, "visibility"))
			return -EINVAL;
		*(bool *)k->field = value[0] == 'v';
		return 0;
	case KEY_CLOCK:
		if (strcmp(value, "real") && strcmp(value, "virtual"))
			return -EINVAL;
		*(bool *)k->field = value[0] == 'v';
		return 0;
	case KEY_WAITS:
		if (strcmp(value, "report") && strcmp(value, "off"))
			return -EINVAL;
		*(bool *)k->field = value[0] == 'r';
		return 0;
	default:
		break;
	}
	if (parse_number(value, k->kind == KEY_SIZE, &v) || v < k->lo || v > k->hi)
		return -EINVAL;
	switch (k->kind) {
	case KEY_U32:
		*(uint32_t *)k->field = (uint32_t)v;
		break;
	case KEY_SIZE:
		*(uint64_t *)k->field = v & ~4095ull;
		break;
	case KEY_BOOL:
		*(bool *)k->field = v;
		break;
	default:
		*(uint64_t *)k->field = v;
		break;
	}
	return 0;
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r\n");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r\n", end[-1]))
		*--end = 0;
	return s;
}

/* One "key = value"; where is the file or variable it came from, for the message. */
static int set_pair(char *pair, const char *where, int line)
{
	char *eq = strchr(pair, '='), *key, *value;

	if (!eq) {
		fprintf(stderr, "vgpu: %s:%d: \"%s\" is not key = value\n", where, line, pair);
		return -EINVAL;
	}
	*eq = 0;
	key = trim(pair);
	value = trim(eq + 1);
	if (!strncmp(key, "rule.", 5)) {
		if (value[0] && !value[1] && (value[0] == '0' || value[0] == '1') &&
		    !vgpu_rule_set(key + 5, value[0] == '1'))
			return 0;
		fprintf(stderr, "vgpu: %s:%d: %s = %s: no such rule, or not 0 or 1\n", where, line,
			key, value);
		return -EINVAL;
	}
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcasecmp(keys[i].name, key))
			continue;
		if (!set_key(&keys[i], value))
			return 0;
		fprintf(stderr, "vgpu: %s:%d: %s = %s: not a value for this key\n", where, line,
			key, value);
		return -EINVAL;
	}
	fprintf(stderr, "vgpu: %s:%d: unknown key %s (value %s)\n", where, line, key, value);
	return -EINVAL;
}

static int load_file(const char *path)
{
	char buf[512];
	int line = 0, err = 0;
	FILE *f = fopen(path, "re");

	if (!f) {
		fprintf(stderr, "vgpu: VGPU_CONFIG: cannot read %s: %s\n", path, strerror(errno));
		return -EINVAL;
	}
	while (!err && fgets(buf, sizeof(buf), f)) {
		char *s;

		line++;
		buf[strcspn(buf, "#;")] = 0;
		s = trim(buf);
		if (*s && *s != '[')
			err = set_pair(s, path, line);
	}
	fclose(f);
	return err;
}

static int load_set(const char *set)
{
	char buf[2048], *save, *pair;
	int n = 0;

	if (strlen(set) >= sizeof(buf)) {
		fprintf(stderr, "vgpu: VGPU_SET: longer than %zu bytes\n", sizeof(buf) - 1);
		return -EINVAL;
	}
	strcpy(buf, set);
	for (pair = strtok_r(buf, ",", &save); pair; pair = strtok_r(NULL, ",", &save)) {
		int err = set_pair(pair, "VGPU_SET", ++n);

		if (err)
			return err;
	}
	return 0;
}

static int load_result;

static size_t field_size(const struct key *k)
{
	switch (k->kind) {
	case KEY_U32:
	case KEY_HANG:
		return sizeof(uint32_t);
	case KEY_BOOL:
	case KEY_CLOCK:
	case KEY_CHECK:
	case KEY_WAITS:
		return sizeof(bool);
	case KEY_KERNEL:
		return sizeof(vgpu_config.kernel);
	case KEY_SIZE:
	case KEY_U64:
		break;
	}
	return sizeof(uint64_t);
}

/* A shared device is what its daemon says; other values for it than the daemon's are refused. */
static int check_shared(const struct vgpu_config *device)
{
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *k = &keys[i];
		size_t at = (size_t)((char *)k->field - (char *)&vgpu_config);

		if (own_field(k->field) ||
		    !memcmp(k->field, (const char *)device + at, field_size(k)))
			continue;
		fprintf(stderr,
			"vgpu: %s: the shared device has another value; the process that started "
			"its daemon set it\n",
			k->name);
		return -EINVAL;
	}
	return 0;
}

static void load_once(void)
{
	const char *file = getenv("VGPU_CONFIG"), *set = getenv("VGPU_SET");
	struct share_device shared;

	if (share_on()) {
		load_result = share_describe(&shared);
		if (load_result)
			return;
		vgpu_config = shared.config;
		memcpy(vgpu_rule_on, shared.rules, sizeof(shared.rules));
	}
	if (file && *file)
		load_result = load_file(file);
	if (!load_result && set && *set)
		load_result = load_set(set);
	if (load_result)
		return;
	if (!vgpu_config.gtt_bytes)
		vgpu_config.gtt_bytes = vgpu_config.ram_bytes / 2 & ~4095ull;
	/* amdgpu_ttm.c:amdgpu_ttm_init caps the GTT of an APU at the machine's RAM. */
	if (vgpu_config.gtt_bytes > vgpu_config.ram_bytes)
		vgpu_config.gtt_bytes = vgpu_config.ram_bytes;
	/* A WGP is two CUs: an odd number of CUs exists on no part. */
	vgpu_config.cus &= ~1u;
	if (share_on())
		load_result = check_shared(&shared.config);
}

int vgpu_config_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_once);
	return load_result;
}
