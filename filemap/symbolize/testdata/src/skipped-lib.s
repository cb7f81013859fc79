# A library whose functions have no frames, for skipped.s.
	.text

	.macro function name
	.globl \name
	.type \name, @function
\name:	.cfi_startproc
	.endm

	.macro finish name
	.cfi_endproc
	.size \name, . - \name
	.endm

	.type inner, @function
inner:	.cfi_startproc			# where the thread is
	xor %eax, %eax
	.globl ip_inner
	.set ip_inner, .
	ret
	finish inner

	function wait_here
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call inner
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	finish wait_here

	function wait_by_jump
	jmp inner
	finish wait_by_jump

	function free
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call inner
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	finish free

	function wait_framed
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	call inner
	pop %rbp
	.cfi_def_cfa %rsp, 8
	ret
	finish wait_framed

	function wait_without_rbp
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	xor %ebp, %ebp
	call inner
	.globl r_without_rbp
	.set r_without_rbp, .
	pop %rbp
	.cfi_def_cfa_offset 8
	ret
	finish wait_without_rbp

	function calls_back
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call *%rdi
	.globl r_calls_back
	.set r_calls_back, .
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	finish calls_back

	function begins_thread		# like start_thread of glibc
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbx, -16
	sub $16, %rsp
	.cfi_adjust_cfa_offset 16
	mov %rdi, 8(%rsp)
	mov 8(%rsp), %rax
	mov $24, %esi
	lea 0x2e0(%rax), %rdi
	mov $273, %eax
	syscall
	mov 8(%rsp), %rax
	mov 0x640(%rax), %rdi
	call *0x638(%rax)
	.globl r_begins_thread
	.set r_begins_thread, .
	mov 8(%rsp), %rax
	call *%rax
	.globl r_other_pointer
	.set r_other_pointer, .
	call inner
	.globl r_own_call
	.set r_own_call, .
	hlt
	finish begins_thread

	.section .note.GNU-stack, "", @progbits
