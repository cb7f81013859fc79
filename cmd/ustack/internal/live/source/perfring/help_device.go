//go:build device

package perfring

// help is the text of --source.
const help = "not in this build"
