//go:build device

package stackmap

// Supported: the device build leaves the reader out. What BPF has counted on a device is read
// elsewhere.
const Supported = false
