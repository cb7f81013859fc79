//go:build device || !(amd64 || arm64)

package bpffutex

// Supported: this build leaves the programs out.
const Supported = false

// Probe reports nothing in this build.
func Probe() error { return nil }
