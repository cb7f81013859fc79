//go:build !device

package perfring

// help is the text of --source.
const help = "perf's own rings, without writing to tracefs, which has to be readable; not taken by auto"
