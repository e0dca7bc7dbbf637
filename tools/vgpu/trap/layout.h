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

/* Call sites: "syscall; jump back", one for each place in the client that was trapped. */
#define TRAP_GATE       TRAP_WINDOW
#define TRAP_GATE_BYTES (1u << 20)
#define TRAP_SLOT       16u

/* One for each thread of the client: how another thread starts with it, and calls that come back to
 * the handler when they have returned. */
#define TRAP_STUBS      (TRAP_GATE + TRAP_GATE_BYTES)
#define TRAP_STUB_BYTES (4u << 20)
#define TRAP_STUB       1024u
#define TRAP_POST       256u /* offset of the first such call */
#define TRAP_POST_SIZE  64u
#define TRAP_POSTS      12u

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

/* The number by which such a call comes back; no kernel has it either. */
#define TRAP_CALL_BACK 0x6b66ff

#endif
