//go:build device

package perfdata

// Supported: the device build leaves the reader out, an eightieth of the program. What perf
// has recorded on a device is read elsewhere.
const Supported = false
