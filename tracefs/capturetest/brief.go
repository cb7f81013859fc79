package capturetest

import (
	"os"
	"testing"
)

// Brief reports whether a test takes a sample of its captures, patterns and
// rounds only: with -short, and unless the environment has USTACK_LONG.
func Brief() bool {
	return testing.Short() || os.Getenv("USTACK_LONG") == ""
}

// NeedLong skips a test that takes long, unless the environment has USTACK_LONG.
func NeedLong(t testing.TB) {
	t.Helper()
	if Brief() {
		t.Skip("takes long: set USTACK_LONG=1, and leave out -short")
	}
}

// SkipShort skips a test that takes about a second or more, with -short: packagers
// need to know that the program works, not that each of its parts does.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: leave out -short")
	}
}
