//go:build !device

package text

// readsMaps: a Scanner knows text of BPF maps.
const readsMaps = true
