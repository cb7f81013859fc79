// Package procmap reads which file is mapped where in the memory of processes:
// with the PROCMAP_QUERY ioctl of /proc/PID/maps where the kernel has it (6.11
// and later), with the text of the same file elsewhere. Both give the same.
//
// The text is also what dumps of mappings consist of; see Head.
package procmap
