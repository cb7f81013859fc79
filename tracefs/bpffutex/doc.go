// Package bpffutex looks at the futex calls of processes with BPF programs of its own.
//
// The programs are in the kernel while a Source is open. They put the entry into each call and
// its return together there, sum up all waits and wakeups by futex and process (Sum), and send
// only waits of a minimum length, each with its user stack (Wait): the kernel gives build IDs
// and file offsets for the frames, or addresses where it does not find a build ID.
//
// All memory is bounded. What there is no room for is counted (Loss).
//
// The compiled programs are kept beside this file, for all little-endian machines: neither a
// compiler nor kernel headers are needed to build or run this package. The kernel's own BTF is.
package bpffutex

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags !device -no-global-types -target bpfel -cflags "-O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu" program futex.bpf.c
//go:generate sh -c "sha256sum futex.bpf.c program_bpfel.o program_bpfel.go >program.sha256"
