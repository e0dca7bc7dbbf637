/* Fault words, exception masks, SMI messages, the trap handler's code object. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kfd/kfd.h"
#include "queues/internal.h"

Test(fault, status_words)
{
	static const struct {
		uint32_t word;
		struct kfd_fault_status want;
	} v[] = {
		/* From a published kernel log: TCP, more faults, permission 5, write. */
		{0x00841051,
		 {.more_faults = true,
		  .permission_faults = 5,
		  .write = true,
		  .client_id = 8,
		  .vmid = 8,
		  .client = "TCP"}},
		{0x00801031,
		 {.more_faults = true,
		  .permission_faults = 3,
		  .client_id = 8,
		  .vmid = 8,
		  .client = "TCP"}},
		{0x00901430,
		 {.permission_faults = 3, .client_id = 10, .vmid = 9, .client = "SQC (data)"}},
		{0x00a8090e,
		 {.walker_error = 7,
		  .mapping_error = true,
		  .atomic = true,
		  .client_id = 4,
		  .vmid = 10,
		  .client = "CPF"}},
		{0x00001600, {.client_id = 11, .client = "SQG"}},
		{0x00000200, {.client_id = 1, .client = "unknown"}},
		{0x0003fe00, {.client_id = 0x1ff, .client = "unknown"}},
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct kfd_fault_status s;

		kfd_fault_status_decode(v[i].word, &s);
		cr_expect_eq(s.more_faults, v[i].want.more_faults, "0x%08x", v[i].word);
		cr_expect_eq(s.walker_error, v[i].want.walker_error, "0x%08x", v[i].word);
		cr_expect_eq(s.permission_faults, v[i].want.permission_faults, "0x%08x", v[i].word);
		cr_expect_eq(s.mapping_error, v[i].want.mapping_error, "0x%08x", v[i].word);
		cr_expect_eq(s.write, v[i].want.write, "0x%08x", v[i].word);
		cr_expect_eq(s.atomic, v[i].want.atomic, "0x%08x", v[i].word);
		cr_expect_eq(s.client_id, v[i].want.client_id, "0x%08x", v[i].word);
		cr_expect_eq(s.vmid, v[i].want.vmid, "0x%08x", v[i].word);
		cr_expect_str_eq(s.client, v[i].want.client, "0x%08x", v[i].word);
	}
}

Test(fault, exception_names)
{
	char text[200];

	cr_expect_eq(kfd_exception_names(0, text, sizeof(text)), 0);
	cr_expect_str_eq(text, "");
	kfd_exception_names(KFD_EC_MASK(EC_QUEUE_WAVE_TRAP) |
				    KFD_EC_MASK(EC_QUEUE_PACKET_UNSUPPORTED),
			    text, sizeof(text));
	cr_expect_str_eq(text, "wave trap, unsupported packet");
	kfd_exception_names(1ull << 8 | 1ull << 63, text, sizeof(text));
	cr_expect_str_eq(text, "exception 9, exception 64");
	cr_expect_eq(kfd_exception_names(~0ull, text, 20), 19);
	cr_expect_eq(strlen(text), 19);
}

static size_t smi(const char *text, struct kfd_smi_event *e, bool *ok)
{
	return kfd_smi_parse(text, strlen(text), e, ok);
}

Test(smi, messages)
{
	struct kfd_smi_event e;
	bool ok;

	cr_expect_eq(smi("9 123456789012 -4242 ea6 2\n", &e, &ok), 27);
	cr_assert(ok);
	cr_expect_eq(e.id, KFD_SMI_QUEUE_EVICTION);
	cr_expect_eq(e.ns, 123456789012);
	cr_expect_eq(e.pid, 4242);
	cr_expect_eq(e.node, 0xea6);
	cr_expect_eq(e.trigger, 2);
	smi("a 5 -4242 ea6 R\n", &e, &ok);
	cr_expect(ok && e.id == KFD_SMI_QUEUE_RESTORE && e.rescheduled && e.node == 0xea6);
	smi("a 5 -4242 ea6 0\n", &e, &ok);
	cr_expect(ok && !e.rescheduled);
	smi("1 1092:barewave\n", &e, &ok);
	cr_expect(ok && e.id == KFD_SMI_VMFAULT && e.pid == 0x1092);
	cr_expect_str_eq(e.text, "1092:barewave");
	smi("3 1f MES hang\n", &e, &ok);
	cr_expect(ok && e.seq == 0x1f && e.has == KFD_SMI_HAS_SEQ);
	smi("b 7 -12 @7f001(10) ea6 2\n", &e, &ok);
	cr_expect(ok && e.va == 0x7f001000 && e.bytes == 0x10000 && e.trigger == 2);
	/* Ids to come keep their text. */
	smi("2a something new\n", &e, &ok);
	cr_expect(ok && e.id == 0x2a && e.has == 0);
	cr_expect_str_eq(e.text, "something new");
}

Test(smi, pieces)
{
	struct kfd_smi_event e;
	static const char nul[] = "9 5 -42 ea6 2\0\n1 5:x\n";
	char longline[300];
	size_t n;
	bool ok;

	cr_expect_eq(smi("9 12345", &e, &ok), 0, "half a message taken");
	cr_expect_eq(kfd_smi_parse("", 0, &e, &ok), 0);
	/* A NUL before the newline, then the next message. */
	n = kfd_smi_parse(nul, sizeof(nul) - 1, &e, &ok);
	cr_assert(ok);
	cr_expect_eq(n, 15);
	cr_expect_eq(e.trigger, 2);
	cr_expect_eq(kfd_smi_parse(nul + n, sizeof(nul) - 1 - n, &e, &ok), 6);
	cr_expect(ok && e.id == 1);
	/* Unreadable lines are skipped whole. */
	cr_expect_eq(smi("?what\n9 5 -42 ea6 2\n", &e, &ok), 6);
	cr_expect_not(ok);
	memset(longline, 'a', sizeof(longline));
	longline[298] = '\n', longline[299] = 0;
	cr_expect_eq(smi(longline, &e, &ok), 299);
	cr_expect_not(ok);
}

Test(trap, embedded_handler)
{
	const struct kernels_embedded *k = kernels_embedded;
	const void *text;
	size_t len, size;
	uint32_t first;

	while (k->name && strcmp(k->name, "trap"))
		k++;
	cr_assert(k->name, "no embedded trap handler");
	size = (size_t)((const char *)k->end - (const char *)k->begin);
	cr_assert_eq(trap_text(k->begin, size, &text, &len), 0);
	cr_expect(len >= 200 && len <= 4096 && len % 4 == 0, "%zu bytes", len);
	memcpy(&first, text, 4);
	cr_expect_eq(first, 0xbf0d986d, "first instruction 0x%08x is not s_bitcmp1_b32 ttmp1, 24",
		     first);
}

Test(trap, not_a_code_object)
{
	const struct kernels_embedded *k = kernels_embedded;
	const void *text = NULL;
	unsigned char *copy;
	size_t len, size;

	while (k->name && strcmp(k->name, "trap"))
		k++;
	cr_assert(k->name);
	size = (size_t)((const char *)k->end - (const char *)k->begin);
	cr_expect_eq(trap_text("#!/bin/sh", 9, &text, &len), -EINVAL);
	/* Cut anywhere, it is refused or found whole; never read beyond the end (sanitizers watch).
	 */
	for (size_t cut = 0; cut < size; cut += 7) {
		copy = malloc(cut ? cut : 1);
		memcpy(copy, k->begin, cut);
		if (trap_text(copy, cut, &text, &len) == 0)
			cr_expect((const unsigned char *)text + len <= copy + cut);
		free(copy);
	}
	copy = malloc(size);
	memcpy(copy, k->begin, size);
	memset(copy + 40, 0xff, 8); /* e_shoff */
	cr_expect_eq(trap_text(copy, size, &text, &len), -EINVAL);
	free(copy);
}
