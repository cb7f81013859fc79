package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
	"ustack/filemap/resolve"
	"ustack/render/intake"
)

// Watch are the flags of watch --push.
type Watch struct {
	Push      // without files
	Directory intake.Directory
	// Metrics is where they are served over HTTP, "" for nowhere.
	Metrics string
	Once    bool
	Quiet   bool
}

// PushSuffix ends the name of what is left of a report that was pushed.
const PushSuffix = ".pushed"

// ParseWatch parses the arguments of watch --push.
func ParseWatch(args []string, stdout io.Writer) (*Watch, error) {
	var f Watch
	var to, maxSize string
	fs := command.NewFlags("watch")
	fs.StringVar(&to, "push", "", "push each report to `ADDRESS`, as ustack push does")
	fs.StringVar(&f.Metrics, "metrics", "", "serve metrics for Prometheus at `HOST:PORT`, path /metrics")
	fs.StringVar(&f.Credentials, "credentials", "", "take USER:PASSWORD of the server from `FILE`, and not from the environment")
	fs.DurationVar(&f.Retry, "retry", 0, "send again for at most `TIME` before the report waits for another try")
	fs.StringVar(&f.Directory.Out, "out", "", "write what was pushed to `DIR`")
	fs.DurationVar(&f.Directory.Settle, "settle", time.Second, "take a file that has not changed for this `TIME`")
	fs.DurationVar(&f.Directory.GiveUp, "give-up", time.Minute, "reject a file whose end is missing after this `TIME` without a change")
	fs.StringVar(&maxSize, "max-size", "4G", "reject a file of more than `BYTES` (suffix K, M or G), 0 means unlimited")
	fs.BoolVar(&f.Once, "once", false, "process the reports that are there, then end")
	fs.BoolVar(&f.Quiet, "q", false, "print nothing about processed reports")
	if err := command.Parse(fs, args, help.Usage("watch"), stdout); err != nil {
		return nil, err
	}
	if fs.NArg() != 1 {
		return nil, errors.New("one INBOX is required, after the flags")
	}
	var err error
	if f.To, err = ParseTarget(to); err != nil {
		return nil, fmt.Errorf("--push: %w", err)
	}
	if f.Directory.MaxSize, err = command.ParseSize("--max-size", maxSize); err != nil {
		return nil, err
	}
	f.From.Quiet, f.From.Dialect, f.Directory.Suffix = true, resolve.Auto, PushSuffix
	return &f, f.check(fs.Arg(0))
}

func (f *Watch) check(inbox string) error {
	_, _, err := net.SplitHostPort(f.Metrics)
	switch {
	case f.Directory.Out == "":
		return errors.New("--out DIR is missing")
	case f.Directory.Settle <= 0 || f.Directory.GiveUp < f.Directory.Settle:
		return errors.New("--settle must be positive, and --give-up not less")
	case f.Retry < 0:
		return errors.New("--retry takes a time of 0 or more")
	case f.Metrics != "" && err != nil:
		return errors.New("--metrics takes HOST:PORT, such as 127.0.0.1:9400")
	}
	if f.Directory.Dir, err = filepath.Abs(inbox); err != nil { // a name that begins with "-" is a file
		return fmt.Errorf("resolving the directory: %w", err)
	}
	out, err := filepath.Abs(f.Directory.Out)
	if err != nil {
		return fmt.Errorf("resolving the directory: %w", err)
	}
	if out == f.Directory.Dir {
		return errors.New("INBOX and --out cannot be the same directory")
	}
	return nil
}

// Pushes reports whether arguments of watch have --push: then it is done by ustack-fleet.
func Pushes(args []string) bool {
	for _, a := range args {
		if name := strings.TrimLeft(a, "-"); name != a && (name == "push" || strings.HasPrefix(name, "push=")) {
			return true
		}
	}
	return false
}

// MainWatch is the command watch --push of ustack.
func MainWatch(args []string, std command.Streams) error {
	if _, err := ParseWatch(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "watch", args)
}
