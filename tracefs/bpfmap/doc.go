// Package bpfmap reads BPF maps of the kernel that others have made (bpf(2), man page), and
// changes nothing in them.
package bpfmap
