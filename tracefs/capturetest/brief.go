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

// Packagers reports whether only the tests for packagers run, who need to know that the
// program works, not that each of its parts does: with -short, but for the step of CI
// with the race detector (USTACK_RACE).
func Packagers() bool { return testing.Short() && os.Getenv("USTACK_RACE") == "" }

// SkipShort skips a test that packagers need not run: it takes half a second or more.
func SkipShort(t testing.TB) {
	t.Helper()
	if Packagers() {
		t.Skip("takes long: leave out -short")
	}
}
