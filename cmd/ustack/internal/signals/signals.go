// Package signals knows which signals end a command.
package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// Base is what shells add to the number of a signal for the exit code of a command
// that it has ended (man 1 sh, "EXIT STATUS").
const Base = 128

// Hangup returns SIGHUP, or nothing if it is ignored: a user who started us with nohup
// does not want it to end us, or the command.
func Hangup() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	return []os.Signal{syscall.SIGHUP}
}
