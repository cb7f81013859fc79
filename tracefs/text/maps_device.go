//go:build device

package text

// readsMaps: the device build leaves text of BPF maps to other machines, as package stackmap
// does.
const readsMaps = false
