package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/internal/tables"
)

// exportCommand is "ustack export".
func exportCommand(args []string, std command.Streams) error {
	f, err := fleet.ParseExport(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	if f.DDL != "" {
		return printDDL(f, std.Out)
	}
	if f.OTLP() {
		return exportOTLP(f, std.Messages())
	}
	s, err := openStore(f.Dir)
	if err != nil {
		return err
	}
	defer s.Close()
	e := exporter{Export: f, store: s, messages: std.Messages()}
	return e.run()
}

// exporter adds reports to a store.
type exporter struct {
	*fleet.Export
	store    *store
	messages io.Writer

	name  xxhash.Digest // of all reports
	added int
	known int
	bad   []error
}

// run adds the reports. One that cannot be read is left out, and is an error at the end.
func (e *exporter) run() error {
	p, err := e.store.newPart()
	if err != nil {
		return err
	}
	e.name.Reset()
	for _, name := range e.Files {
		if err := e.report(p, name); err != nil {
			return errors.Join(err, p.abandon())
		}
	}
	if e.added == 0 {
		err = p.abandon()
	} else {
		err = p.finish(fmt.Sprintf("%s%s-%016x", fleet.PartPrefix, time.Now().UTC().Format("20060102T150405"), e.name.Sum64()))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(e.messages, "ustack: %d reports added to %s, %d were there already\n", e.added, e.Dir, e.known)
	if len(e.bad) > 0 {
		return fmt.Errorf("%d of %d reports were left out: %w", len(e.bad), len(e.Files), errors.Join(e.bad...))
	}
	return nil
}

// report adds a report. Its error is of the tables.
func (e *exporter) report(p *part, name string) error {
	key, err := keyOfReport(name)
	if err != nil {
		e.bad = append(e.bad, err)
		return nil
	}
	if key.in(e.store.reports) {
		e.known++
		return nil
	}
	c, err := collect(&e.Reports, name, key.key, e.messages)
	if err != nil {
		e.bad = append(e.bad, err)
		return nil
	}
	e.added++
	fmt.Fprintf(&e.name, "%016x", key.key)
	return e.store.add(p, c)
}

// collect reads a report and returns its rows.
func collect(f *fleet.Reports, name string, key uint64, messages io.Writer) (*collector, error) {
	c := newCollector()
	from := f.From
	from.Files = []string{name}
	source := tables.Source{From: &from, Symbols: &f.Symbols, Places: true}
	_, err := source.Load(nil, messages, c)
	if err == nil {
		err = c.whole()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.finish(key, filepath.Base(name), time.Now())
	return c, nil
}

// inOrder returns the stacks that samples refer to, in the order of their numbers.
func (c *collector) inOrder() []*stack {
	used := make(map[uint64]bool)
	for i := range c.samples {
		for _, k := range []*uint64{c.samples[i].Stack, c.samples[i].OwnerStack} {
			if k != nil {
				used[*k] = true
			}
		}
	}
	var numbers []int64
	for n, s := range c.stacks {
		if used[s.row.Stack] {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var out []*stack
	for _, n := range numbers {
		out = append(out, c.stacks[n])
	}
	return out
}

// umask returns the permissions that new files do not get.
func umask() os.FileMode {
	mask := unix.Umask(0)
	unix.Umask(mask)
	return os.FileMode(mask)
}
