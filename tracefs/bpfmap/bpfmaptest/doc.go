// Package bpfmaptest makes BPF maps as other programs do, for tests: a stack map with build
// IDs, filled by a BPF program at the entry of futex, and a map that counts its stacks. It
// needs root. What it makes is gone when it is closed, or its program ends.
package bpfmaptest
