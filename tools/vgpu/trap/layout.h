/* Where the trap backend lies in the client's address space, and how its filter knows it.
 *
 * A seccomp filter outlives execve(), so everything that it lets through must be at the same place
 * in every image: the loader is linked statically to a fixed address (TRAP_IMAGE), and the
 * code it writes at run time lies right below. The place is one that the kernel gives to nobody and
 * that the sanitizers' shadows leave free (below ELF_ET_DYN_BASE, 0x555555554000).
 */
#ifndef VGPU_TRAP_LAYOUT_H
#define VGPU_TRAP_LAYOUT_H

#define TRAP_WINDOW 0x550040000000ull /* 1 GiB that the filter takes for ours */

/* Call sites: "syscall; jump back", one for each place in the client that was trapped. A slot's
 * third syscall instruction ends TRAP_POST bytes in and traps whatever its number is. */
#define TRAP_GATE       TRAP_WINDOW
#define TRAP_GATE_BYTES (1u << 20)
#define TRAP_SLOT       32u
#define TRAP_POST       12u

/* Thread starts: one for each thread that can be on its way at a time. */
#define TRAP_STARTS       (TRAP_GATE + TRAP_GATE_BYTES)
#define TRAP_STARTS_BYTES (1u << 20)
#define TRAP_START        256u

/* The loader's own code and data: Makefile's --image-base. */
#define TRAP_IMAGE 0x550050000000ull

/* seccomp's SECCOMP_RET_DATA of our filters, to be told from a client's own. */
#define TRAP_DATA 0x5647u

/* Numbers that no kernel has and our filters answer with TRAP_DATA's low bits: is the filter there?
 * The fds' own follow behind TRAP_ASK_FD. */
#define TRAP_ASK        0x6b6600
#define TRAP_ASK_DEVICE 0x6b6601
#define TRAP_ASK_ANY_FD 0x6b6602
#define TRAP_ASK_FD     0x6c0000
#define TRAP_ANSWER     0x647

#endif
