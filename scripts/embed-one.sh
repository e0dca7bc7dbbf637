#!/bin/sh
# Writes an assembly file that embeds FILE as SYMBOL .. SYMBOL_end, hidden.
set -eu
printf '\t.section .rodata\n\t.balign 16\n'
printf '\t.globl %s, %s_end\n\t.hidden %s, %s_end\n' "$1" "$1" "$1" "$1"
printf '%s:\n\t.incbin "%s"\n%s_end:\n' "$1" "$2" "$1"
printf '\t.section .note.GNU-stack,"",@progbits\n'
