//go:build !device

package perfdata

// Supported: a perf.data can be read.
const Supported = true
