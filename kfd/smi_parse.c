/* SMI messages. Pure.
 *
 * "%x " event id, then the event's own text, newline. A message can be cut at 95 characters, and
 * some kernels put a NUL before the newline; ids that are new to us keep their text.
 * Source: amdkfd/kfd_smi_events.c; formats in the uapi header, KFD_EVENT_FMT_*.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kfd/kfd.h"

static void parse_body(struct kfd_smi_event *e)
{
	unsigned long long ns, a, b;
	long long pid;
	unsigned node, trig;
	char c;

	switch (e->id) {
	case KFD_SMI_VMFAULT:
	case KFD_SMI_PROCESS_START:
	case KFD_SMI_PROCESS_END:
		if (sscanf(e->text, "%llx", &a) == 1) {
			e->pid = (int64_t)a;
			e->has |= KFD_SMI_HAS_PID;
		}
		break;
	case KFD_SMI_PRE_RESET:
	case KFD_SMI_POST_RESET:
		if (sscanf(e->text, "%llx", &a) == 1) {
			e->seq = a;
			e->has |= KFD_SMI_HAS_SEQ;
		}
		break;
	case KFD_SMI_QUEUE_EVICTION:
		if (sscanf(e->text, "%llu -%lld %x %u", &ns, &pid, &node, &trig) == 4) {
			e->ns = ns, e->pid = pid, e->node = node, e->trigger = trig;
			e->has |= KFD_SMI_HAS_NS | KFD_SMI_HAS_PID | KFD_SMI_HAS_NODE |
				  KFD_SMI_HAS_TRIGGER;
		}
		break;
	case KFD_SMI_QUEUE_RESTORE:
		if (sscanf(e->text, "%llu -%lld %x %c", &ns, &pid, &node, &c) >= 3) {
			e->ns = ns, e->pid = pid, e->node = node;
			e->rescheduled = strchr(e->text, 'R') != NULL;
			e->has |= KFD_SMI_HAS_NS | KFD_SMI_HAS_PID | KFD_SMI_HAS_NODE;
		}
		break;
	case KFD_SMI_UNMAP:
		if (sscanf(e->text, "%llu -%lld @%llx(%llx) %x %u", &ns, &pid, &a, &b, &node,
			   &trig) == 6) {
			e->ns = ns, e->pid = pid, e->va = a << 12, e->bytes = b << 12;
			e->node = node, e->trigger = trig;
			e->has |= KFD_SMI_HAS_NS | KFD_SMI_HAS_PID | KFD_SMI_HAS_NODE |
				  KFD_SMI_HAS_TRIGGER | KFD_SMI_HAS_RANGE;
		}
		break;
	case KFD_SMI_MIGRATE_START:
	case KFD_SMI_MIGRATE_END:
		if (sscanf(e->text, "%llu -%lld @%llx(%llx) %x", &ns, &pid, &a, &b, &node) == 5) {
			e->ns = ns, e->pid = pid, e->va = a << 12, e->bytes = b << 12;
			e->node = node;
			e->has |= KFD_SMI_HAS_NS | KFD_SMI_HAS_PID | KFD_SMI_HAS_NODE |
				  KFD_SMI_HAS_RANGE;
		}
		break;
	case KFD_SMI_PAGE_FAULT_START:
	case KFD_SMI_PAGE_FAULT_END:
		if (sscanf(e->text, "%llu -%lld @%llx(%x) %c", &ns, &pid, &a, &node, &c) == 5) {
			e->ns = ns, e->pid = pid, e->va = a << 12, e->node = node;
			e->has |= KFD_SMI_HAS_NS | KFD_SMI_HAS_PID | KFD_SMI_HAS_NODE |
				  KFD_SMI_HAS_RANGE;
		}
		break;
	default:
		break;
	}
}

size_t kfd_smi_parse(const char *text, size_t len, struct kfd_smi_event *out, bool *ok)
{
	const char *nl = memchr(text, '\n', len);
	struct kfd_smi_event e = {0};
	char line[128];
	char *end;
	size_t n;

	*ok = false;
	if (!nl)
		return 0;
	n = (size_t)(nl - text);
	if (n >= sizeof(line))
		return n + 1;
	memcpy(line, text, n);
	line[n] = 0;
	while (n && (line[n - 1] == 0 || line[n - 1] == '\r'))
		line[--n] = 0;
	/* A NUL inside (a lost newline before it) ends this message early: what follows is lost. */
	if (!isxdigit((unsigned char)line[0]))
		return (size_t)(nl - text) + 1;
	e.id = (uint32_t)strtoul(line, &end, 16);
	if (*end && *end != ' ')
		return (size_t)(nl - text) + 1;
	while (*end == ' ')
		end++;
	snprintf(e.text, sizeof(e.text), "%.95s", end);
	parse_body(&e);
	*out = e;
	*ok = true;
	return (size_t)(nl - text) + 1;
}
