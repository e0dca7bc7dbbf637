#!/bin/sh
# Writes an assembly file that embeds code objects and a table of them:
# struct kernels_embedded { const char *name; const void *begin, *end; }, NULL-terminated.
set -eu
echo '	.section .rodata'
for f in "$@"; do
	n=$(basename "$f" .co)
	printf '\t.balign 4096\nco_%s:\n\t.incbin "%s"\nco_%s_end:\nco_%s_name:\n\t.asciz "%s"\n' "$n" "$f" "$n" "$n" "$n"
done
printf '\t.section .data.rel.ro,"aw"\n\t.balign 8\n\t.globl kernels_embedded\nkernels_embedded:\n'
for f in "$@"; do
	n=$(basename "$f" .co)
	printf '\t.quad co_%s_name, co_%s, co_%s_end\n' "$n" "$n" "$n"
done
printf '\t.quad 0, 0, 0\n\t.section .note.GNU-stack,"",@progbits\n'
