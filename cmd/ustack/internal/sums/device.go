//go:build device || !(amd64 || arm64)

package sums

// Supported: this build leaves the source out.
const Supported = false

// Run has no programs to run in this build.
func Run(*Options) (code int, err error) { return 0, ErrBuild }
