//go:build !device

package jitcode

import "runtime"

// Supported reports whether code of this machine can be followed.
const Supported = runtime.GOARCH == "amd64"
