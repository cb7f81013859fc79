//go:build !device

package hotspot

// Supported: callers of Java code are found.
const Supported = true
