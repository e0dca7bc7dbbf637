#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/rules.h"
#include "memory/va.h"

#define GUARD_BYTES (64u << 10)
#define BIG_BYTES   (2ull << 20)
#define GRAIN       256u /* a whole number of cache lines */
#define REDZONE_MAX (1ull << 20)

_Static_assert(BO_RULES_MAX <= 64, "struct bo_rules_seen has a bit for each rule");

static int refuse(char *why, size_t len, const char *option, const char *value, const char *wanted)
{
	snprintf(why, len, "--%s '%s'; wanted: %s", option, value, wanted);
	return -EINVAL;
}

bool mem_bytes_parse(const char *text, uint64_t *out)
{
	char *end;
	uint64_t v;
	unsigned shift = 0;

	if (*text < '0' || *text > '9') /* strtoull would take signs and spaces */
		return false;
	errno = 0;
	v = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
	if (errno)
		return false;
	if (*end == 'K')
		shift = 10;
	else if (*end == 'M')
		shift = 20;
	else if (*end == 'G')
		shift = 30;
	end += shift != 0;
	if (*end || v > UINT64_MAX >> shift)
		return false;
	*out = v << shift;
	return true;
}

static int add(struct bo_rules *r, const char *owner, size_t owner_len, enum bo_property what,
	       uint64_t value, char *why, size_t why_len)
{
	struct bo_rule *rule = &r->rule[r->n];

	if (r->n == BO_RULES_MAX) {
		snprintf(why, why_len, "more than %d placement rules", BO_RULES_MAX);
		return -ENOSPC;
	}
	if (!owner_len || owner_len >= sizeof(rule->owner)) {
		snprintf(why, why_len, "owner '%.*s'; wanted: 1 to %zu characters",
			 owner_len > 80 ? 80 : (int)owner_len, owner, sizeof(rule->owner) - 1);
		return -EINVAL;
	}
	memcpy(rule->owner, owner, owner_len);
	rule->owner[owner_len] = '\0';
	rule->what = what;
	rule->value = value;
	r->n++;
	return 0;
}

/* OWNER=REST, or OWNER:REST when there is no "="; owners themselves may hold colons. */
static const char *split(const char *value, const char **owner, size_t *len)
{
	const char *at = strchr(value, '=');

	if (!at)
		at = strrchr(value, ':');
	/* The colon of "at:VA" is no separator. */
	while (at && *at == ':' && at - value > 2 && !strncmp(at - 2, "at", 2) &&
	       (at[-3] == ',' || at[-3] == ':'))
		for (at--; at > value && *at != ':'; at--)
			;
	if (!at) {
		*owner = "*";
		*len = 1;
		return value;
	}
	*owner = value;
	*len = (size_t)(at - value);
	return at + 1;
}

static const struct {
	const char *word;
	enum bo_property what;
	uint64_t value;
} words[] = {
	{"gtt", BO_RULE_PLACEMENT, BO_GTT},
	{"vram", BO_RULE_PLACEMENT, BO_VRAM},
	{"userptr", BO_RULE_PLACEMENT, BO_USERPTR},
	{"coarse", BO_RULE_COHERENCE, BO_COARSE},
	{"fine", BO_RULE_COHERENCE, BO_FINE},
	{"uncached", BO_RULE_COHERENCE, BO_UNCACHED},
	{"ro", BO_RULE_READONLY, true},
	{"rw", BO_RULE_READONLY, false},
	{"exec", BO_RULE_EXECUTABLE, true},
	{"noexec", BO_RULE_EXECUTABLE, false},
	{"random", BO_RULE_RANDOM, true},
	{"lowest", BO_RULE_RANDOM, false},
};

static int place(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	static const char wanted[] =
		"OWNER=WORD[,WORD...] of gtt vram userptr coarse fine uncached ro rw "
		"exec noexec random lowest at:VA";
	const char *owner, *at, *next;
	struct bo_rules copy = *r;
	size_t owner_len;

	if (!strchr(value, '=') && !strchr(value, ':'))
		return refuse(why, len, option, value, wanted);
	for (at = split(value, &owner, &owner_len); *at; at = *next ? next + 1 : next) {
		size_t n = strcspn(at, ","), i = 0;
		int rc;

		next = at + n;
		while (i < sizeof(words) / sizeof(words[0]) &&
		       (strlen(words[i].word) != n || memcmp(words[i].word, at, n)))
			i++;
		if (i < sizeof(words) / sizeof(words[0])) {
			rc = add(&copy, owner, owner_len, words[i].what, words[i].value, why, len);
		} else if (n > 3 && n < 40 && !memcmp(at, "at:", 3)) {
			char text[40];
			uint64_t va;

			memcpy(text, at + 3, n - 3);
			text[n - 3] = '\0';
			if (!mem_bytes_parse(text, &va) || va & 4095)
				return refuse(why, len, option, value, "at: a VA in whole pages");
			rc = add(&copy, owner, owner_len, BO_RULE_VA, va, why, len);
		} else {
			return refuse(why, len, option, value, wanted);
		}
		if (rc < 0)
			return rc;
	}
	*r = copy;
	return 0;
}

static int align(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	const char *owner, *rest;
	size_t owner_len;
	uint64_t v;

	rest = split(value, &owner, &owner_len);
	if (!mem_bytes_parse(rest, &v) || !v || v & (v - 1) || v < 4 || v > 1ull << 30)
		return refuse(why, len, option, value,
			      "[OWNER=]BYTES, a power of two from 4 to 1G");
	return add(r, owner, owner_len, BO_RULE_ALIGN, v, why, len);
}

static int guard(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	static const char *const names[] = {"none", "start", "end", "both"};
	const char *owner, *rest;
	size_t owner_len;

	rest = split(value, &owner, &owner_len);
	for (unsigned i = 0; i < 4; i++)
		if (!strcmp(rest, names[i]))
			return add(r, owner, owner_len, BO_RULE_GUARD, i, why, len);
	return refuse(why, len, option, value, "[OWNER=]none, start, end or both");
}

static int redzone(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	const char *owner, *rest;
	size_t owner_len;
	uint64_t v;

	rest = split(value, &owner, &owner_len);
	if (!mem_bytes_parse(rest, &v) || v & 15 || v > REDZONE_MAX)
		return refuse(why, len, option, value, "[OWNER=]BYTES, a multiple of 16 up to 1M");
	return add(r, owner, owner_len, BO_RULE_REDZONE, v, why, len);
}

static int quarantine(struct bo_rules *r, const char *option, const char *value, char *why,
		      size_t len)
{
	size_t n = strlen(value);
	char text[40];
	uint64_t v;

	if (!strcmp(value, "all")) {
		r->quarantine_bytes = r->quarantine_ns = UINT64_MAX;
		return 0;
	}
	if (n > 1 && n < sizeof(text) && value[n - 1] == 's') {
		memcpy(text, value, n - 1);
		text[n - 1] = '\0';
		if (mem_bytes_parse(text, &v) && v && v < 1u << 30) {
			r->quarantine_ns = v * 1000000000u;
			return 0;
		}
	} else if (mem_bytes_parse(value, &v)) {
		r->quarantine_bytes = v;
		return 0;
	}
	return refuse(why, len, option, value, "BYTES, SECONDSs or all");
}

static int poison(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	const char *at = value;
	bool at_alloc = true, at_free = true;
	uint64_t v;

	if (!strncmp(at, "alloc=", 6)) {
		at_free = false;
		at += 6;
	} else if (!strncmp(at, "free=", 5)) {
		at_alloc = false;
		at += 5;
	}
	if (!mem_bytes_parse(at, &v) || v > 255)
		return refuse(why, len, option, value, "[alloc=|free=]BYTE, 0 to 0xff");
	if (at_alloc) {
		r->poison_alloc = true;
		r->alloc_byte = (uint8_t)v;
	}
	if (at_free) {
		r->poison_free = true;
		r->free_byte = (uint8_t)(at_alloc ? ~v : v);
	}
	return 0;
}

static int seed(struct bo_rules *r, const char *option, const char *value, char *why, size_t len)
{
	uint64_t v;

	if (!mem_bytes_parse(value, &v))
		return refuse(why, len, option, value, "a number");
	r->seed = v;
	return add(r, "*", 1, BO_RULE_RANDOM, true, why, len);
}

static const struct {
	const char *name;
	int (*add)(struct bo_rules *r, const char *option, const char *value, char *why,
		   size_t len);
} options[] = {
	{"align", align},           {"guard", guard},   {"redzone", redzone}, {"place", place},
	{"quarantine", quarantine}, {"poison", poison}, {"va-seed", seed},
};

bool bo_rules_knows(const char *option)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, option))
			return true;
	return false;
}

int bo_rules_add(struct bo_rules *r, const char *option, const char *value, char *why,
		 size_t why_len)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, option))
			return options[i].add(r, option, value, why, why_len);
	snprintf(why, why_len, "--%s is no placement rule", option);
	return -EINVAL;
}

static bool names(const struct bo_rule *rule, const char *owner)
{
	return fnmatch(rule->owner, owner, 0) == 0;
}

void bo_rules_apply(const struct bo_rules *r, struct bo_desc *d)
{
	/* What the buffer is for can demand more than asked here. */
	const uint64_t least = d->align, grain = d->grain;

	for (unsigned i = 0; r && i < r->n; i++) {
		const struct bo_rule *rule = &r->rule[i];

		if (!names(rule, d->owner))
			continue;
		switch (rule->what) {
		case BO_RULE_ALIGN:
			/* Where in its page the first byte of an end-flush buffer may lie, or where
			 * the buffer may. */
			if (rule->value < 4096)
				d->grain = rule->value > grain ? rule->value : grain;
			else
				d->align = rule->value > least ? rule->value : least;
			break;
		case BO_RULE_GUARD:
			d->guard = (enum bo_guard)rule->value;
			if (d->guard & BO_GUARD_END && !d->grain)
				d->grain = GRAIN;
			break;
		case BO_RULE_PLACEMENT:
			if (!d->userptr && d->placement != BO_DOORBELL)
				d->placement = (enum bo_placement)rule->value;
			break;
		case BO_RULE_COHERENCE:
			d->coherence = (enum bo_coherence)rule->value;
			break;
		case BO_RULE_READONLY:
			d->readonly = rule->value;
			break;
		case BO_RULE_EXECUTABLE:
			d->executable = rule->value;
			break;
		case BO_RULE_RANDOM:
			d->random = rule->value;
			break;
		case BO_RULE_VA:
			if (!d->userptr)
				d->va = rule->value;
			break;
		case BO_RULE_REDZONE:
			break;
		}
	}
}

void bo_rules_see(const struct bo_rules *r, const char *name, unsigned takes,
		  struct bo_rules_seen *seen)
{
	for (unsigned i = 0; r && i < r->n; i++) {
		if (!names(&r->rule[i], name))
			continue;
		seen->named |= 1ull << i;
		if (takes & BO_TAKES(r->rule[i].what))
			seen->used |= 1ull << i;
	}
}

int bo_rules_idle(const struct bo_rules *r, const struct bo_rules_seen *seen, unsigned from,
		  char *why, size_t why_len)
{
	static const char *const names_of[] = {
		[BO_RULE_ALIGN] = "align",
		[BO_RULE_GUARD] = "guard",
		[BO_RULE_REDZONE] = "redzone",
	};

	for (unsigned i = from; r && i < r->n; i++) {
		const struct bo_rule *rule = &r->rule[i];
		const char *option = rule->what <= BO_RULE_REDZONE ? names_of[rule->what] : "place";

		if (seen->used >> i & 1)
			continue;
		snprintf(why, why_len, "--%s '%s' changes nothing: %s", option, rule->owner,
			 !(seen->named >> i & 1) ? "no buffer has that name, and nothing inside one"
			 : rule->what == BO_RULE_REDZONE
				 ? "what has that name has nothing inside it that a red zone "
				   "could surround"
				 : "what has that name lies inside a buffer, and only the buffer "
				   "could take it");
		return (int)i;
	}
	return -1;
}

static uint64_t last(const struct bo_rules *r, enum bo_property what, const char *owner,
		     uint64_t fallback)
{
	for (unsigned i = r ? r->n : 0; i-- > 0;)
		if (r->rule[i].what == what && names(&r->rule[i], owner))
			return r->rule[i].value;
	return fallback;
}

void bo_want(const struct bo_desc *d, struct va_want *out)
{
	uint64_t guard = d->guard_bytes ? d->guard_bytes : GUARD_BYTES;
	uint64_t size = (d->size + VA_ALIGN_MIN - 1) & ~(VA_ALIGN_MIN - 1);
	uint64_t align = size < BIG_BYTES ? VA_ALIGN_MIN : BIG_BYTES;

	*out = (struct va_want){
		.size = size,
		.align = d->align ? d->align : align,
		.before = d->guard & BO_GUARD_START ? guard : 0,
		.after = d->guard & BO_GUARD_END ? guard : 0,
	};
}

uint64_t bo_rules_align(const struct bo_rules *r, const char *owner, uint64_t fallback)
{
	return last(r, BO_RULE_ALIGN, owner, fallback);
}

uint64_t bo_rules_align_inside(const struct bo_rules *r, const char *name, uint64_t fallback)
{
	for (unsigned i = r ? r->n : 0; i-- > 0;) {
		const struct bo_rule *rule = &r->rule[i];

		if (rule->what == BO_RULE_ALIGN && names(rule, name) &&
		    (rule->value < VA_ALIGN_MIN || strchr(rule->owner, ':')))
			return rule->value;
	}
	return fallback;
}

uint64_t bo_rules_redzone(const struct bo_rules *r, const char *owner)
{
	return last(r, BO_RULE_REDZONE, owner, 0);
}

bool bo_rules_zoned(const struct bo_rules *r)
{
	for (unsigned i = 0; r && i < r->n; i++)
		if (r->rule[i].what == BO_RULE_REDZONE && r->rule[i].value)
			return true;
	return false;
}
