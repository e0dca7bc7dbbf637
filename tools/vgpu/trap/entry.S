/* The two places where the client's world and ours meet: SIGSYS, and the first instructions of a
 * thread. Neither may touch a thread pointer or a stack that it has not set up.
 *
 * Offsets into struct block (trap.h): block.c asserts them.
 */
#define B_FS	    0
#define B_STACK	    8
#define B_CLIENT_FS 16
#define B_TID	    48

#define NR_rt_sigreturn 15
#define NR_sigaltstack	131
#define NR_arch_prctl	158
#define NR_gettid	186
#define ARCH_SET_FS	0x1002
#define ARCH_GET_FS	0x1003

	.text

/* void trap_set_fs(uint64_t fs): fs in rdi. Uses rax, rcx, r11, rdi, rsi. */
	.globl	trap_set_fs
	.type	trap_set_fs, @function
trap_set_fs:
	cmpb	$0, trap_fsgsbase(%rip)
	je	1f
	wrfsbase %rdi
	ret
1:	movq	%rdi, %rsi
	movl	$ARCH_SET_FS, %edi
	movl	$NR_arch_prctl, %eax
	syscall
	ret
	.size	trap_set_fs, .-trap_set_fs

	.globl	trap_get_fs
	.type	trap_get_fs, @function
trap_get_fs:
	cmpb	$0, trap_fsgsbase(%rip)
	je	1f
	rdfsbase %rax
	ret
1:	subq	$24, %rsp
	movq	%rsp, %rsi
	movl	$ARCH_GET_FS, %edi
	movl	$NR_arch_prctl, %eax
	syscall
	movq	(%rsp), %rax
	addq	$24, %rsp
	ret
	.size	trap_get_fs, .-trap_get_fs

/* The handler. What the client had in its registers is in the frame: all are free here. */
	.globl	trap_entry
	.type	trap_entry, @function
trap_entry:
	movq	%rsp, %rbx
	movl	%edi, %ebp
	movq	%rsi, %r12
	movq	%rdx, %r13
	movl	$NR_gettid, %eax
	syscall
	movq	trap_blocks(%rip), %rcx
	movq	(%rcx,%rax,8), %r14
	testq	%r14, %r14
	jnz	1f
	movq	%rax, %rdi
	andq	$-16, %rsp
	call	block_adopt
	movq	%rax, %r14
1:	movq	B_STACK(%r14), %rsp
	call	trap_get_fs
	movq	%rax, B_CLIENT_FS(%r14)
	movq	B_FS(%r14), %rdi
	call	trap_set_fs
	movq	%r14, %rdi
	movq	%r12, %rsi
	movq	%r13, %rdx
	call	trap_signal
	movq	%rax, %r15
	movq	B_CLIENT_FS(%r14), %rdi
	call	trap_set_fs
	movq	%rbx, %rsp
	testq	%r15, %r15
	jnz	2f
	ret				/* to trap_restorer, which the kernel put there */
2:	movl	%ebp, %edi
	movq	%r12, %rsi
	movq	%r13, %rdx
	jmp	*%r15
	.size	trap_entry, .-trap_entry

	.globl	trap_restorer
	.type	trap_restorer, @function
trap_restorer:
	movl	$NR_rt_sigreturn, %eax
	syscall
	.size	trap_restorer, .-trap_restorer

/* void trap_go(uint64_t entry, uint64_t sp) */
	.globl	trap_go
	.type	trap_go, @function
trap_go:
	movq	%rdi, %rbx
	movq	%rsi, %rsp
	xorl	%edi, %edi
	call	trap_set_fs		/* writes below the client's vector only */
	movq	%rbx, %rcx
	xorl	%eax, %eax
	xorl	%ebx, %ebx
	xorl	%edx, %edx		/* nothing to register with atexit() */
	xorl	%esi, %esi
	xorl	%edi, %edi
	xorl	%ebp, %ebp
	xorl	%r8d, %r8d
	xorl	%r9d, %r9d
	xorl	%r10d, %r10d
	xorl	%r11d, %r11d
	xorl	%r12d, %r12d
	xorl	%r13d, %r13d
	xorl	%r14d, %r14d
	xorl	%r15d, %r15d
	jmp	*%rcx
	.size	trap_go, .-trap_go

/* A thread's start, copied to TRAP_STUBS (gate.c) with its data filled in. The client's clone() is
 * the first instruction. Only rax, rcx and r11 may change; the child has no usable stack. */
	.section .rodata
	.globl	trap_start_code, trap_start_data, trap_start_end
trap_start_code:
	syscall
	testq	%rax, %rax
	js	2f
	jz	1f
	jmp	*3f(%rip)
1:	movq	%rdi, 5f(%rip)
	movq	%rsi, 6f(%rip)
	movq	7f(%rip), %rdi
	xorl	%esi, %esi
	movl	$NR_sigaltstack, %eax
	syscall
	movl	$NR_gettid, %eax
	syscall
	movq	8f(%rip), %rcx
	movq	9f(%rip), %r11
	movl	%eax, B_TID(%r11)
	movq	%r11, (%rcx,%rax,8)
	movq	5f(%rip), %rdi
	movq	6f(%rip), %rsi
	xorl	%eax, %eax
	jmp	*3f(%rip)
2:	jmp	*4f(%rip)
	.balign	8
trap_start_data:
3:	.quad	0			/* the client's next instruction */
4:	.quad	0			/* clone() failed: as a call that comes back */
5:	.quad	0
6:	.quad	0
7:	.quad	0			/* block.alt */
8:	.quad	0			/* trap_blocks */
9:	.quad	0			/* block */
trap_start_end:

	.section .note.GNU-stack, "", @progbits
