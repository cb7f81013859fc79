//go:build device

package jitcode

// Supported: the device build leaves this out. Stacks end there at such code.
const Supported = false
