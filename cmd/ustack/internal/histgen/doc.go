// Package histgen makes histories of a small machine for tests: what its kernel
// writes into a trace with deferred user stacks, what a side band logs of address
// spaces meanwhile, and which file each frame really was in.
//
// The machine is hostile to the attribution of frames: files have equal layouts,
// new mappings take the addresses of old ones, struct files are allocated where
// the last one was freed, so that hashes of their addresses come back, inode
// numbers are used again, processes fork, share memory, execute programs and load
// and unload libraries in the middle of other threads' system calls, and both the
// trace and the log lose records. Other tracers have the kernel announce files, at times
// much changes within the rounding of a time stamp, and a poller that reads the processes
// makes pauses.
package histgen
