// Frames of arm64 that are skipped or not. skipped-arm64.elf is made of it by
//	llvm-mc -filetype=obj -triple=aarch64-linux-gnu -o s.o skipped-arm64.s
//	ld.lld --build-id --eh-frame-hdr -z max-page-size=4096 -z separate-code -o skipped-arm64.elf s.o
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
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov x29, sp
	.endm

	.macro leave_frame
	ldp x29, x30, [sp], #16
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	.endm

	.macro calls name
	bl \name
	.globl r_\name
	.set r_\name, .
	.endm

	begin leaf				// has no frame
	svc #0
	.globl ip_leaf
	.set ip_leaf, .
	ret
	finish leaf

	begin saves				// saves x30 only
	str x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 30, -16
	bl leaf
	ldr x30, [sp], #16
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
	finish saves

	begin uses				// x29 for something else
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov x29, xzr
	bl leaf
	leave_frame
	ret
	finish uses

	begin plain
	enter
	bl leaf
	leave_frame
	ret
	finish plain

	begin far
	enter
	bl saves
	leave_frame
	ret
	finish far

	begin ends_in_jump
	enter
	bl leaf
	leave_frame
	b leaf
	finish ends_in_jump

	begin jump_table
	enter
	adr x0, 1f
	br x0
1:	bl leaf
	leave_frame
	ret
	finish jump_table

	begin framed_end
	enter
	bl leaf
	leave_frame
	cbz x0, plain
	ret
	finish framed_end

	begin unknown_end
	enter
	bl leaf
	leave_frame
	br x1
	finish unknown_end

	begin by_uses
	enter
	bl uses
	leave_frame
	ret
	finish by_uses

	begin by_pointer
	enter
	blr x0
	leave_frame
	ret
	finish by_pointer

	begin no_frame
	str x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 30, -16
	bl leaf
	ldr x30, [sp], #16
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
	finish no_frame

	begin _start
	enter
	calls plain
	calls far
	calls ends_in_jump
	calls jump_table
	calls framed_end
	calls unknown_end
	calls by_uses
	calls by_pointer
	calls no_frame
	calls leaf
	leave_frame
	ret
	finish _start
