//go:build device

package syscalls

// i386Names are none: devices run no programs of x86.
const i386Names = ""
