// Package stackmap reads BPF maps of others: stack traces that the kernel has taken with
// build IDs (BPF_MAP_TYPE_STACK_TRACE with BPF_F_STACK_BUILD_ID), and maps that say how often
// each was counted.
//
// A map comes as elements, of a file that "bpftool map dump -j" has written (Dump) or of the
// kernel (package bpfmap). Text makes of them the text that bpftrace prints for such stacks,
// which package text reads.
package stackmap
