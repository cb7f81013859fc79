//go:build device

package hotspot

// Supported: the device build leaves out what knows OpenJDK, a hundredth of the program.
// Stacks end there at the code that it makes.
const Supported = false
