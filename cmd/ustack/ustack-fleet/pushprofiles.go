package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/profiles"
	"ustack/filemap"
	"ustack/filemap/symbol"
)

// profilePusher sends reports to a server of profiles, each by itself. Such servers do not say
// what they have: a report that is sent twice counts twice.
type profilePusher struct {
	*fleet.Push
	client   *profiles.Client
	messages io.Writer

	seen   map[uint64]bool
	pushed int
	empty  int // without anything that the server takes
	bad    []error
}

func newProfilePusher(f *fleet.Push, messages io.Writer, getenv func(string) string, transport http.RoundTripper) (*profilePusher, error) {
	credentials, err := f.To.Kind.Credentials(f.Credentials, getenv)
	if err != nil {
		return nil, err
	}
	p := &profilePusher{Push: f, client: profiles.New(f.To, credentials, transport), messages: messages, seen: make(map[uint64]bool)}
	p.client.Wait.Total = f.Retry
	return p, nil
}

// run sends the reports. One that cannot be read is left out, and is an error at the end.
func (p *profilePusher) run(ctx context.Context) error {
	var err error
	for _, name := range p.Files {
		if err = p.report(ctx, name); err != nil {
			break
		}
	}
	fmt.Fprintf(p.messages, "ustack: %d reports pushed, %d had nothing for this server\n", p.pushed, p.empty)
	switch {
	case err != nil:
		return err
	case len(p.bad) > 0:
		return fmt.Errorf("%d of %d reports were left out: %w", len(p.bad), len(p.Files), errors.Join(p.bad...))
	}
	return nil
}

// report sends a report. Its error is of the server.
func (p *profilePusher) report(ctx context.Context, name string) error {
	key, err := keyOfReport(name)
	if err != nil {
		p.bad = append(p.bad, err)
		return nil
	}
	if p.seen[key.key] {
		return nil
	}
	p.seen[key.key] = true
	c, err := collect(&p.Reports, name, key.key, p.messages)
	if err != nil {
		p.bad = append(p.bad, err)
		return nil
	}
	if err := p.send(ctx, c); err != nil {
		return fmt.Errorf("pushing %s, after %d others: %w", name, p.pushed, err)
	}
	return nil
}

// send sends a report, if it has something for this server.
func (p *profilePusher) send(ctx context.Context, c *collector) error {
	r := profileOf(c, p.To.Kind == fleet.KindOTLP)
	if len(r.Samples) == 0 {
		p.empty++
		return nil
	}
	if err := p.client.Send(ctx, r, func(err error, wait time.Duration) {
		fmt.Fprintf(p.messages, "ustack: %v; trying again in %v\n", err, wait.Round(time.Millisecond))
	}); err != nil {
		return err
	}
	p.pushed++
	return nil
}

// profileOf returns what a profile is made of: the waits of a report with a time, and if wanted
// other events.
func profileOf(c *collector, events bool) *profiles.Report {
	d := &c.device
	r := &profiles.Report{Key: d.Report, Device: clean(d.Device), OS: clean(d.OS), Kernel: clean(d.Kernel), Arch: clean(d.Arch), Duration: d.Duration}
	if d.Begun != nil {
		r.Begun = *d.Begun
	}
	at := make(map[uint64]int)
	for _, s := range c.inOrder() {
		if _, ok := at[s.row.Stack]; !ok {
			at[s.row.Stack] = len(r.Stacks)
			r.Stacks = append(r.Stacks, framesOf(s))
		}
	}
	for i := range c.samples {
		row := &c.samples[i]
		s := profiles.Sample{Stack: -1, Kind: clean(text0(row.LockKind)), Lock: clean(text0(row.LockName))}
		switch {
		case row.NS != nil:
			s.Value = weighted(*row.NS, row.Weight)
		case row.Event != futexWait && events:
			s.Event, s.Value = clean(row.Event), int64(row.Weight)
		default:
			continue
		}
		if row.Stack != nil {
			s.Stack = at[*row.Stack]
		}
		if row.Time != nil {
			s.Time = *row.Time
		}
		if row.TID != nil {
			s.TID = *row.TID
		}
		r.Samples = append(r.Samples, s)
	}
	return r
}

// weighted returns a time for all waits that one stands for.
func weighted(ns int64, weight float64) int64 {
	if weight == 1 {
		return ns
	}
	return int64(math.Round(min(float64(ns)*weight, maxSum)))
}

// framesOf returns the frames of a stack.
func framesOf(s *stack) (frames []profiles.Frame) {
	for i := range s.frames {
		row := &s.frames[i]
		f := profiles.Frame{Path: clean(text0(row.Path)), Ran: row.Ran, Reason: clean(text0(row.Reason))}
		if row.Offset != nil {
			f.Offset = uint64(*row.Offset)
		}
		var id filemap.BuildID
		if row.BuildID != nil && len(*row.BuildID) == 2*len(id) {
			if _, err := hex.Decode(id[:], []byte(*row.BuildID)); err == nil {
				f.BuildID = symbol.ShortHex(id)
			}
		}
		frames = append(frames, f)
	}
	return frames
}
