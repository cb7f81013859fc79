//go:build device

package profile

// Formats returns what a device has: it records, and what other programs show is made where
// reports are read.
func Formats() []Format {
	return []Format{{Name: "folded", Write: someFolded}}
}
