# Functions with frames, in all the ways in which they can be skipped or not.
# The labels r_NAME are where the calls of NAME return to.
	.text

	.macro begin name
	.globl \name
	.type \name, @function
\name:	.cfi_startproc
	.endm

	.macro finish name
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro enter
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	.endm

	.macro leave_frame			# as GCC writes it: no word of rbp
	pop %rbp
	.cfi_def_cfa %rsp, 8
	.endm

	.macro calls name
	call \name
	.globl r_\name
	.set r_\name, .
	.endm

	begin plain
	enter
	call wait_here@plt
	leave_frame
	ret
	finish plain

	begin by_jump				# through one that only jumps
	enter
	call jumps
	leave_frame
	ret
	finish by_jump

	begin jumps
	jmp wait_by_jump@plt
	finish jumps

	begin no_plt
	enter
	call *wait_here@GOTPCREL(%rip)
	leave_frame
	ret
	finish no_plt

	begin ends_in_jump			# to one without a frame
	enter
	call wait_here@plt
	leave_frame
	jmp wait_by_jump@plt
	finish ends_in_jump

	begin jump_table
	enter
	lea 1f(%rip), %rax
	jmp *%rax
1:	call wait_here@plt
	leave_frame
	ret
	finish jump_table

	begin comes_back			# from a part of it that lies elsewhere
	enter
	test %eax, %eax
	jne comes_back.cold
1:	call wait_here@plt
	.globl comes_back.1
	.set comes_back.1, 1b
	leave_frame
	ret
	finish comes_back

	.type comes_back.cold, @function
comes_back.cold:
	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
	nop
	jmp comes_back.1
	finish comes_back.cold

	begin framed_end			# jumps to one with a frame
	enter
	call wait_here@plt
	leave_frame
	jmp plain
	finish framed_end

	begin framed_far_end
	enter
	call wait_here@plt
	leave_frame
	jmp wait_framed@plt
	finish framed_far_end

	begin framed_end_at_last		# jumps to one without, which jumps on
	enter
	call wait_here@plt
	leave_frame
	jmp to_plain
	finish framed_end_at_last

	begin to_plain
	test %eax, %eax
	jne plain
	ret
	finish to_plain

	begin frees				# anybody can bring along a free
	enter
	call wait_here@plt
	leave_frame
	jmp free@plt
	finish frees

	begin unknown_end
	enter
	call wait_here@plt
	leave_frame
	jmp *%rax
	finish unknown_end

	begin frameless
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call wait_here@plt
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	finish frameless

	begin elsewhere				# never comes there
	enter
	call jumps_not
	leave_frame
	ret
	finish elsewhere

	begin jumps_not
	ret
	finish jumps_not

	begin without_rbp			# by one that uses rbp
	enter
	call wait_without_rbp@plt
	leave_frame
	ret
	finish without_rbp

	begin by_pointer
	enter
	call *%rdi
	leave_frame
	ret
	finish by_pointer

	begin calls_qsort			# the library calls back
	enter
	lea plain(%rip), %rdi
	call calls_back@plt
	leave_frame
	ret
	finish calls_qsort

	begin _start
	enter
	calls plain
	calls by_jump
	calls no_plt
	calls ends_in_jump
	calls jump_table
	calls comes_back
	calls framed_end
	calls framed_far_end
	calls framed_end_at_last
	calls frees
	calls unknown_end
	calls frameless
	calls elsewhere
	calls without_rbp
	calls by_pointer
	calls calls_qsort
	call middle + 1
	.globl r_middle
	.set r_middle, .
	call wait_here@plt
	.globl r_plt
	.set r_plt, .
	lea plain(%rip), %rax
	call *%rax
	.globl r_indirect
	.set r_indirect, .
	leave_frame
	ret
	finish _start

	begin middle
	nop
	enter
	call wait_here@plt
	leave_frame
	ret
	finish middle

	.section .note.GNU-stack, "", @progbits
