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

// CatchPipe makes an error of a write to a pipe without a reader, for standard output
// and standard error, too, until the program ends. Otherwise such a write ends the
// program (os/signal, "SIGPIPE"), before it has taken down what it has set up.
func CatchPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
