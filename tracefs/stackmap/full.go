//go:build !device

package stackmap

// Supported: BPF maps can be read.
const Supported = true
