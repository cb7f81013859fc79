// Package recorder has the sinks of live tracing that write reports: one that writes as
// the trace comes, and a flight recorder that keeps the last events in memory until
// something happens.
//
// Until a report is complete its file has another name, and the part that was written
// can be read whatever happens. Records that do not fit are counted. A report that
// names a file by an identifier announces the file.
package recorder

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/render/record"
	"ustack/render/redact"
	"ustack/tracefs"
)

// Options are what both sinks need.
type Options struct {
	Name     string           // of the report
	MaxSize  int64            // of a report in bytes, 0 for no limit
	Redactor *redact.Redactor // nil to write all as it is
	Command  []string         // that is traced, for the head
	Proc     string           // where proc is mounted
	Version  string           // of this program
	Reporter *live.Reporter
	Budget   *Budget // nil for none
	Chance   Chance  // with which a report is written; of a ring with triggers, one for each
}

// ownHead returns the head of a record of our own, in the layout of the trace.
func ownHead() []byte { return headAt(0) }

// headAt does the same for a record of a time, 0 for now. Files that are known before the
// first event have its time: the trace begins with it.
func headAt(at tracefs.Time) []byte {
	const perSecond, perMicro = 1e9, 1000
	if at == 0 {
		at = space.Monotonic()
	}
	return fmt.Appendf(nil, "%16s-%-7d [000] ..... %5d.%06d: ", "ustack", os.Getpid(), at/perSecond, at%perSecond/perMicro)
}

// create begins a report, on the budget, by record.Create or the like.
func (opt *Options) create(begin func(name string, max int64) (*record.File, error)) (*record.File, error) {
	size, err := opt.Budget.Room(opt.MaxSize)
	if err != nil {
		return nil, err
	}
	file, err := begin(opt.Name, size)
	if err != nil {
		return nil, err
	}
	if err := file.OnAccount(opt.Budget.account()); err != nil {
		return nil, err
	}
	return file, nil
}

// fields returns the contents of a report's head.
func (opt *Options) fields(start *live.Start) []record.Field {
	mono, wall := space.Monotonic(), time.Now()
	redacted := ""
	if opt.Redactor != nil {
		redacted = "1"
	}
	var events []string
	for _, e := range start.Events {
		events = append(events, e.String())
	}
	return record.FieldsOf(
		"ustack", opt.Version, "kernel", live.Release(), "arch", runtime.GOARCH, "boot_id", procmap.BootID(opt.Proc), "os", osName(osRelease),
		"clock", live.Clock, "clock_offset_ns", strconv.FormatInt(wall.UnixNano()-int64(mono), 10),
		"begun", wall.UTC().Format(time.RFC3339Nano), "stacks", start.Stacks.String(), "mappings", start.Mappings,
		"events", strings.Join(events, " "), "command", strings.Join(opt.Command, " "), "redacted", redacted)
}
