// Package sums is the engine of --source=bpf: BPF programs (package bpffutex) put futex calls
// together and count them in the kernel, and send only long waits. It finds the files of their
// stacks, and makes the report of what was counted and sent (futex.Summed).
package sums

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/contention"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/recorder"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/procmap"
	"ustack/render/futex"
)

// Name is the value of --source.
const Name = "bpf"

// ErrBuild: this build has no BPF programs.
var ErrBuild = errors.New("--source=bpf: this build has no BPF programs (it is one for devices, or for another architecture than amd64 and arm64)")

// Options say what is looked at, and what is written.
type Options struct {
	// PIDs are the processes to look at, with their children; all without any.
	PIDs []int
	// Command is run and looked at, if there is one, with the standard streams Child.
	Command    []string
	Child      command.Streams
	Duration   time.Duration // 0 for no limit
	MinWait    time.Duration // of waits that are seen by themselves
	Interval   time.Duration // how often the report so far is written, 0 for never
	Proc       string
	MapsSource procmap.Source
	Unwind     string // how stacks are found: live.UnwindAuto, UnwindCopy or UnwindFP
	Symbols    symbols.Options
	Out        contention.Output
	// The report goes To, or to Stdout; it is Text or not.
	To       destination.Flags
	Text     bool
	Stdout   io.Writer
	Quiet    bool
	Messages io.Writer
	// Record keeps waits and sums in memory and writes reports of them, nil for the report at
	// the end.
	Record *Recording
	// Exit ends the program with an exit code at once: a second signal has come.
	Exit func(code int)
}

// Recording says what is recorded, and when.
type Recording struct {
	recorder.Options
	Ring recorder.RingOptions
}

// without are flags that have no use with this source.
var without = [...]string{"e", "b", "max-buffer", "save", "tracefs", "mappings", "no-sched", "owners", "blame", "impact", "from", "to", "what-if"}

// Check reports a flag that has no use with this source.
func Check(fs *flag.FlagSet) (err error) {
	if !Supported {
		return ErrBuild
	}
	fs.Visit(func(f *flag.Flag) {
		by := f.Name == "by" && !slices.Contains([]string{string(futex.ByAuto), string(futex.ByLock)}, f.Value.String())
		if err == nil && f.Name == "unwind" && f.Value.String() == live.UnwindBlocked {
			err = fmt.Errorf("--unwind=%s cannot be combined with --source=%s, which takes a stack when a wait has ended", f.Value, Name)
		}
		if err == nil && (by || slices.Contains(without[:], f.Name)) {
			err = fmt.Errorf("--%s=%s cannot be combined with --source=%s, which counts by futex and does not show each call", f.Name, f.Value, Name)
		}
	})
	return err
}

// CheckRecord reports a flag of record that has no use with this source.
func CheckRecord(fs *flag.FlagSet, ring bool) error {
	if Supported && !ring {
		return fmt.Errorf("--source=%s needs --ring: it keeps sums and long waits until a report of them is written", Name)
	}
	return Check(fs)
}

// DefaultMinWait is the MinWait unless another one is given, RecordMinWait that of record.
const (
	DefaultMinWait = time.Millisecond
	RecordMinWait  = 10 * time.Millisecond
)
