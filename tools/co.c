/* barewave co: what is in a code object. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "codeobj/codeobj.h"
#include "codeobj/descriptor.h"
#include "tools/code_file.h"
#include "tools/tool.h"

static const char help[] =
	"Usage: barewave co [OPTIONS] FILE [KERNEL...]\n\n"
	"Lists the kernels of an amdgpu code object (v4 to v6, any arch): resources, arguments,\n"
	"and with -v the kernel descriptor field by field. Of an offload bundle, also a "
	"compressed\n"
	"one, the entry for gfx1151, or for gfx11-generic, or the only one.\n\n"
	"  -v, --verbose   also every descriptor field, segments and relocations\n"
	"  --target ARCH   of a bundle, the entry for ARCH (gfx1100)\n"
	"  --json          everything, as JSON\n"
	"  --help          this text\n";

static const char *const word_name[] = {
	"compute_pgm_rsrc1",      "compute_pgm_rsrc2", "compute_pgm_rsrc3",
	"kernel_code_properties", "kernarg_preload",
};
static const char *const feature_name[] = {"unsupported", "any", "off", "on"};

static void print_args(const struct co_kernel *k)
{
	if (!k->n_args)
		return;
	printf("  arguments   offset  size  kind\n");
	for (uint32_t i = 0; i < k->n_args; i++) {
		const struct co_arg *a = &k->args[i];

		printf("    %3u       %6u  %4u  %s%s%s%s%s\n", i, a->offset, a->size, a->value_kind,
		       a->name[0] ? "  " : "", a->name, a->type_name[0] ? " : " : "", a->type_name);
	}
}

static void print_descriptor(const struct co_kernel *k, const struct kd *kd)
{
	printf("  descriptor  group %u  private %u  kernarg %u  entry %+lld\n", kd->group_bytes,
	       kd->private_bytes, kd->kernarg_bytes, (long long)kd->entry_offset);
	for (int w = KD_RSRC1; w <= KD_PRELOAD; w++) {
		uint32_t reserved = kd_reserved_bits(kd, (enum kd_word)w);

		printf("    %s 0x%08x\n", word_name[w], kd_word_get(kd, (enum kd_word)w));
		for (unsigned i = 0; i < kd_n_fields; i++)
			if (kd_fields[i].word == (enum kd_word)w)
				printf("      %-36s %u\n", kd_fields[i].name,
				       kd_field_get(kd, &kd_fields[i]));
		if (reserved)
			printf("      reserved bits set                    0x%08x\n", reserved);
	}
	if (!kd_reserved_zero(k->kd))
		printf("    reserved bytes are not zero\n");
}

static void print_kernel(const struct co_kernel *k, bool verbose)
{
	struct kd kd;

	kd_decode(k->kd, &kd);
	printf("\nkernel %s\n", k->name);
	printf("  wave        %u lanes, workgroup up to %u work-items%s\n", k->wave64 ? 64u : 32u,
	       k->max_group, k->uniform_work_group ? ", uniform" : "");
	printf("  registers   %u SGPRs, %u VGPRs (allocated %u), spills %u and %u\n", k->sgprs,
	       k->vgprs, kd_vgprs(&kd), k->sgpr_spills, k->vgpr_spills);
	printf("  memory      kernel arguments %u (aligned %u), LDS %u, scratch %u per lane%s\n",
	       k->kernarg_bytes, k->kernarg_align, k->group_bytes, k->private_bytes,
	       k->dynamic_stack ? ", dynamic stack" : "");
	printf("  addresses   descriptor 0x%llx, entry 0x%llx\n", (unsigned long long)k->kd_vaddr,
	       (unsigned long long)k->entry_vaddr);
	print_args(k);
	if (verbose)
		print_descriptor(k, &kd);
}

static void print_layout(const struct codeobj *co)
{
	printf("segments  vaddr       memory      file        offset      access\n");
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];

		printf("  %-6u  0x%08llx  0x%08llx  0x%08llx  0x%08llx  r%s%s\n", i,
		       (unsigned long long)s->vaddr, (unsigned long long)s->memsz,
		       (unsigned long long)s->filesz, (unsigned long long)s->offset,
		       s->write ? "w" : "-", s->exec ? "x" : "-");
	}
	for (uint32_t i = 0; i < co->n_relocs; i++)
		printf("relocation %u at 0x%llx: type %u, symbol 0x%llx, addend %lld\n", i,
		       (unsigned long long)co->relocs[i].offset, co->relocs[i].type,
		       (unsigned long long)co->relocs[i].sym_value,
		       (long long)co->relocs[i].addend);
}

static json_t *json_args(const struct co_kernel *k)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < k->n_args; i++) {
		const struct co_arg *a = &k->args[i];

		json_array_append_new(
			list, json_pack("{s:o s:o s:o s:I s:I}", "name", tool_json_text(a->name),
					"type", tool_json_text(a->type_name), "kind",
					tool_json_text(a->value_kind), "offset",
					(json_int_t)a->offset, "size", (json_int_t)a->size));
	}
	return list;
}

static json_t *json_kernel(const struct co_kernel *k)
{
	json_t *fields = json_object(), *o;
	struct kd kd;

	kd_decode(k->kd, &kd);
	for (unsigned i = 0; i < kd_n_fields; i++)
		json_object_set_new(fields, kd_fields[i].name,
				    json_integer(kd_field_get(&kd, &kd_fields[i])));
	o = json_pack("{s:o s:i s:I s:b s:b s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "name",
		      tool_json_text(k->name), "wave", k->wave64 ? 64 : 32, "max_group",
		      (json_int_t)k->max_group, "uniform_work_group", (int)k->uniform_work_group,
		      "dynamic_stack", (int)k->dynamic_stack, "sgprs", (json_int_t)k->sgprs,
		      "vgprs", (json_int_t)k->vgprs, "vgprs_allocated", (json_int_t)kd_vgprs(&kd),
		      "sgpr_spills", (json_int_t)k->sgpr_spills, "vgpr_spills",
		      (json_int_t)k->vgpr_spills, "kernarg_bytes", (json_int_t)k->kernarg_bytes,
		      "kernarg_align", (json_int_t)k->kernarg_align, "group_bytes",
		      (json_int_t)k->group_bytes, "private_bytes", (json_int_t)k->private_bytes,
		      "kd_vaddr", (json_int_t)k->kd_vaddr, "entry_vaddr",
		      (json_int_t)k->entry_vaddr);
	json_object_set_new(o, "args", json_args(k));
	json_object_set_new(o, "descriptor", fields);
	return o;
}

static bool wanted(const struct co_kernel *k, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strcmp(*names, k->name))
			return true;
	return false;
}

static json_t *json_bundle(const struct code_file *c)
{
	json_t *ids = json_array();

	for (uint32_t i = 0; i < c->bundle.n; i++)
		json_array_append_new(ids, tool_json_text(c->bundle.entries[i].id));
	return json_pack("{s:o s:o}", "entries", ids, "shown", tool_json_text(c->entry->id));
}

static void print_bundle(const char *path, const struct code_file *c)
{
	printf("%s: offload bundle%s of %u\n", path, c->bundle.plain ? ", compressed," : "",
	       c->bundle.n);
	for (uint32_t i = 0; i < c->bundle.n; i++) {
		const struct co_bundle_entry *e = &c->bundle.entries[i];

		printf("  %-50s %10zu bytes%s\n", e->id, e->bytes,
		       e == c->entry ? ", shown here" : "");
	}
}

static int print_json(const char *path, const struct code_file *c, const struct codeobj *co,
		      char **names)
{
	json_t *kernels = json_array(), *segments = json_array(), *o;

	for (uint32_t i = 0; i < co->n_kernels; i++)
		if (wanted(&co->kernels[i], names))
			json_array_append_new(kernels, json_kernel(&co->kernels[i]));
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];

		json_array_append_new(segments,
				      json_pack("{s:I s:I s:I s:I s:b s:b}", "vaddr",
						(json_int_t)s->vaddr, "memsz", (json_int_t)s->memsz,
						"filesz", (json_int_t)s->filesz, "offset",
						(json_int_t)s->offset, "write", (int)s->write,
						"exec", (int)s->exec));
	}
	o = json_pack("{s:o s:o s:s s:I s:i s:s s:s s:I s:I}", "file", tool_json_text(path),
		      "target", tool_json_text(co->target), "arch", co_mach_name(co->mach), "mach",
		      (json_int_t)co->mach, "version", (int)co->version, "xnack",
		      feature_name[co->xnack], "sramecc", feature_name[co->sramecc], "bytes",
		      (json_int_t)co->image_bytes, "loaded_bytes", (json_int_t)co->vaddr_end);
	json_object_set_new(o, "relocations", json_integer(co->n_relocs));
	json_object_set_new(o, "segments", segments);
	json_object_set_new(o, "kernels", kernels);
	if (c->entry)
		json_object_set_new(o, "bundle", json_bundle(c));
	return tool_print_json(o);
}

static int show(const char *path, char **names, const char *target, bool json, bool verbose)
{
	struct codeobj *co = NULL;
	struct code_file c;
	char err[1024];
	int rc = TOOL_OK;

	if (code_file_read(path, target, true, &c, err, sizeof(err)))
		return tool_fail("%s", err);
	if (co_parse_any(c.image, c.bytes, &co, err, sizeof(err))) {
		rc = tool_fail("%s: %s", path, err);
		goto out;
	}
	for (char **name = names; *name; name++)
		if (!co_find(co, *name)) {
			rc = tool_fail("%s: no kernel '%s'", path, *name);
			goto out;
		}
	if (json) {
		rc = print_json(path, &c, co, names);
		goto out;
	}
	if (c.entry)
		print_bundle(path, &c);
	printf("%s: %s, code object v%u, %zu bytes, %llu loaded, xnack %s, sramecc %s\n", path,
	       co->target, co->version, c.bytes, (unsigned long long)co->vaddr_end,
	       feature_name[co->xnack], feature_name[co->sramecc]);
	if (verbose)
		print_layout(co);
	for (uint32_t i = 0; i < co->n_kernels; i++)
		if (wanted(&co->kernels[i], names))
			print_kernel(&co->kernels[i], verbose);
out:
	co_free(co);
	code_file_free(&c);
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"verbose", no_argument, NULL, 'v'},
		{"json", no_argument, NULL, 'j'},
		{"target", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *target = NULL;
	bool json = false, verbose = false;
	int o;

	while ((o = getopt_long(argc, argv, ":vh", options, NULL)) != -1) {
		switch (o) {
		case 'v':
			verbose = true;
			break;
		case 'j':
			json = true;
			break;
		case 't':
			target = optarg;
			break;
		case 'h':
			return tool_help(self);
		default:
			return tool_bad_option(self, o, argv);
		}
	}
	if (optind >= argc)
		return tool_usage(self, "no FILE given");
	return show(argv[optind], argv + optind + 1, target, json, verbose);
}

const struct command cmd_co = {
	"co",
	"kernels, descriptors and metadata of a code object",
	help,
	run,
};
