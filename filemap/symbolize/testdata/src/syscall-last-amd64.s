# The last instruction of a function is a system call: a thread that is in it is at
# the first address of the next function. syscall-last-amd64.elf is made by
# as -o x.o syscall-last-amd64.s && ld --build-id -z noseparate-code -o syscall-last-amd64.elf x.o
	.globl _start
	.text
last:	.type last, @function
	mov $60, %eax
	xor %edi, %edi
	syscall
	.size last, . - last
next:	.type next, @function
	nop
	ret
	.size next, . - next
_start:	.type _start, @function
	call last
	ud2
	.size _start, . - _start
