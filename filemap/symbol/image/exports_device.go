//go:build device

package image

// sameExports takes a separate file with the same sections for one of the same build, to
// keep the program small.
func sameExports(x, o *Image) bool { return true }
