package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/budget"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/cmd/ustack/internal/recorder"
	"ustack/cmd/ustack/internal/sums"
	"ustack/render/record"
	"ustack/tracefs/nearest"
	"ustack/tracefs/pagefile"
)

// recordFlags are the flags of record.
type recordFlags struct {
	liveFlags
	maxSize int64
	drop    record.Drop
	format  string
	ring    bool
	sums    bool // --source=bpf
	flight  recorder.RingOptions
	minWait time.Duration // with --source=bpf
	budget  budget.Flags
	chance  recorder.Chance
	redactFlags
}

// Defaults of the flight recorder.
const (
	defaultKeep     = 30 * time.Second
	defaultKeepSize = 8 << 20
	defaultAfter    = time.Second
	defaultCoolDown = 10 * time.Second
	defaultFiles    = 10
)

func parseRecord(args []string, stdout io.Writer) (*recordFlags, error) {
	var f recordFlags
	fs := command.NewFlags("record")
	f.sourceFlags(fs)
	command.Unset(fs, &f.Sched, "no-sched", "do not trace what the owners of locks do: sched_switch, sched_waking and ticks of the timer, with -p or a command, and without -e")
	var triggers command.List
	fs.StringVar(&f.out, "o", "", "write the report to `FILE`")
	maxSize := fs.String("max-size", "0", "never write more than `BYTES` (suffix K, M or G), 0 means unlimited")
	drop := fs.String("drop", "newest", "`WHAT` to leave out first when the size is reached: newest, or stacks")
	fs.StringVar(&f.format, "format", formatText, "`FORMAT` of the report: text, or pages (of the ring buffer as they are: least CPU time, text is made by the reader)")
	fs.BoolVar(&f.ring, "ring", false, "keep the last events in memory, and write a report at the end, at SIGUSR1, or at a --trigger")
	fs.DurationVar(&f.flight.Keep, "keep", defaultKeep, "with --ring: keep the events of this `TIME`")
	keepSize := fs.String("keep-size", "8M", "with --ring: keep at most `BYTES`, compressed")
	fs.Var(&triggers, "trigger", "with --ring: write a report when `WHAT` happens: futex-wait>TIME, futex-wait>Np99 (N times the 99th percentile of its lock), event=SYSTEM:NAME, deadlock, loss or signal; may be repeated")
	fs.DurationVar(&f.flight.After, "after", defaultAfter, "with --ring: go on for this `TIME` after a trigger")
	fs.DurationVar(&f.flight.CoolDown, "cool-down", defaultCoolDown, "with --ring: `TIME` between two reports")
	fs.IntVar(&f.flight.MaxFiles, "max-files", defaultFiles, "with --ring: at most `N` reports, FILE, FILE.1, …")
	fs.DurationVar(&f.minWait, "min-wait", sums.RecordMinWait, "with --source=bpf: keep waits of at least `TIME`, with their stacks")
	f.budget.Register(fs)
	fs.Var(&f.chance, "probability", "record with probability `P`, which the report says; with --trigger, write the report of each")
	redact := fs.Bool("redact", false, "replace names, paths, addresses and free text by tokens")
	f.redactFlags.define(fs)
	if err := command.Parse(fs, args, help.Usage("record"), stdout); err != nil {
		return nil, err
	}
	f.Command = fs.Args()
	var errs [6]error
	f.maxSize, errs[0] = command.ParseSize("--max-size", *maxSize)
	f.flight.KeepSize, errs[1] = command.ParseSize("--keep-size", *keepSize)
	f.drop, errs[2] = record.ParseDrop(*drop)
	errs[3] = f.parseTriggers(triggers)
	if *redact {
		errs[4] = f.makeRedactor()
	}
	if f.sums = f.Source == sums.Name; f.sums {
		errs[5], f.Source = sums.CheckRecord(fs, f.ring), sources.Auto // it has none of the engine's
	}
	return &f, errors.Join(errors.Join(errs[:]...), f.checkRecord(args))
}

// Values of --format.
const formatText, formatPages = "text", "pages"

// checkPages checks the flags for a report of pages.
func (f *recordFlags) checkPages() error {
	switch {
	case f.format == formatText:
		return nil
	case f.format != formatPages:
		return errors.New(nearest.Unknown("format", f.format, []string{formatText, formatPages}))
	case f.redactor != nil:
		return errors.New("--format=pages and --redact cannot be combined: redact the report later (ustack redact)")
	case f.ring || f.Save != "" || f.drop != record.DropNewest:
		return errors.New("--format=pages cannot be combined with --ring, --save or --drop=stacks")
	case f.Source != sources.Auto && f.Source != sources.Binary:
		return fmt.Errorf("--format=pages has no text to read (--source=%s)", f.Source)
	}
	return nil
}

func (f *recordFlags) checkRecord(args []string) error {
	if err := f.checkPages(); err != nil {
		return err
	}
	switch {
	case f.out == "":
		return errors.New("-o FILE is missing")
	case !f.ring && len(f.flight.Triggers) > 0:
		return errors.New("--trigger needs --ring")
	case f.flight.Keep < 0 || f.flight.After < 0 || f.flight.CoolDown < 0 || f.flight.MaxFiles < 1:
		return errors.New("times must not be negative, and --max-files at least 1")
	case f.redactor != nil && f.Save != "":
		return errors.New("--save and --redact cannot be combined")
	case f.ring && f.flight.Keep == 0 && f.flight.KeepSize == 0:
		return errors.New("--ring needs a bound: --keep or --keep-size")
	}
	return f.checkSource(args)
}

// parseTriggers reads --trigger, and has events traced that are waited for.
func (f *recordFlags) parseTriggers(words []string) error {
	for _, word := range words {
		t, err := record.ParseTrigger(word)
		if err != nil {
			return err
		}
		f.flight.Triggers = append(f.flight.Triggers, t)
		if t.Event != "" {
			f.More = append(f.More, t.Event)
		}
	}
	return nil
}

// recordCommand is the subcommand.
func recordCommand(args []string, std command.Streams) error {
	f, err := parseRecord(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	child, err := destination.ForCommand(f.Command, f.out, std, false)
	if err != nil {
		return command.UsageError(err)
	}
	opt := f.engine("record", child)
	if len(f.flight.Triggers) == 0 && !f.chance.Happens() {
		opt.Reporter.Say("not recorded: --probability %v", &f.chance)
		return recorder.RunUnrecorded(f.Command)
	}
	limit, err := recorder.OpenBudget(&f.budget, f.out, f.Proc, opt.Reporter.Say)
	if err != nil {
		return err
	}
	report := recorder.Options{
		Name: f.out, MaxSize: f.maxSize, Redactor: f.redactor, Command: f.Command,
		Proc: f.Proc, Version: command.Version(), Reporter: opt.Reporter, Budget: limit, Chance: f.chance,
	}
	if !f.ring { // that waits for the next day
		if _, err := limit.Room(f.maxSize); errors.Is(err, budget.ErrSpent) {
			opt.Reporter.Say("not recorded: %v", err)
			return errors.Join(limit.Close(), recorder.RunUnrecorded(f.Command))
		}
	}
	return errors.Join(f.record(opt, report, std, child), limit.Close())
}

// record records. child has the streams of the command.
func (f *recordFlags) record(opt *live.Options, report recorder.Options, std, child command.Streams) error {
	if sums.Supported && f.sums {
		return runSums(&f.liveFlags, std, child, sums.Options{MinWait: f.minWait, Record: &sums.Recording{Options: report, Ring: f.flight}})
	}
	if f.ring {
		opt.MayBeEmpty = true // what is waited for may never happen
		opt.EachEvent = f.redactor != nil || f.flight.LooksAtEvents()
		return trace(opt, recorder.NewRing(report, f.flight), recordGarbage)
	}
	if f.format == formatPages {
		opt.Pages = pagefile.NewCapture()
		return trace(opt, recorder.NewPages(report, opt.Pages), recordGarbage)
	}
	opt.EachEvent = f.redactor != nil || f.maxSize > 0 || f.budget.Limits.Bytes > 0
	return trace(opt, recorder.NewReport(report, f.drop), recordGarbage)
}
