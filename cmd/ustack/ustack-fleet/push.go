package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// pushCommand is "ustack push".
func pushCommand(args []string, std command.Streams) error {
	f, err := fleet.ParsePush(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if f.To.Kind != fleet.KindClickHouse {
		p, err := newProfilePusher(f, std.Messages(), os.Getenv, nil)
		if err != nil {
			return err
		}
		return p.run(ctx)
	}
	p, err := newPusher(f, std.Messages(), os.Getenv, nil)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

// pusher sends reports to a server, in batches.
//
// Invariant: a report counts once at the server, however often it is sent (see remoteTable).
type pusher struct {
	*fleet.Push
	client   *clickhouse.Client
	messages io.Writer
	maxBytes int // of a batch

	batch  *batch
	sent   map[uint64]bool // stacks that the server has, some of them
	pushed int
	known  int
	bad    []error
}

// Sizes of what is sent at once: fewer, larger parts cost a server less; the batch is in
// memory.
const (
	batchBytes = 24 << 20
	maxSent    = 1 << 20 // stacks that are remembered: watch does not end
	askFiles   = 256     // reports of which the server is asked at once whether it has them
)

func newPusher(f *fleet.Push, messages io.Writer, getenv func(string) string, transport http.RoundTripper) (*pusher, error) {
	credentials, err := fleet.LoadCredentials(f.Credentials, getenv)
	if err != nil {
		return nil, err
	}
	p := &pusher{Push: f, client: clickhouse.New(f.To, credentials, transport), messages: messages, maxBytes: batchBytes, batch: newBatch(), sent: make(map[uint64]bool)}
	p.client.Wait.Total = f.Retry
	return p, nil
}

// run sends the reports. One that cannot be read is left out, and is an error at the end.
func (p *pusher) run(ctx context.Context) error {
	err := p.all(ctx)
	if err == nil {
		err = p.flush(ctx)
	}
	fmt.Fprintf(p.messages, "ustack: %d reports pushed, %d were there already\n", p.pushed, p.known)
	if err != nil {
		return fmt.Errorf("%w; push the same reports again to continue: those that are there are not counted twice", err)
	}
	if len(p.bad) > 0 {
		return fmt.Errorf("%d of %d reports were left out: %w", len(p.bad), len(p.Files), errors.Join(p.bad...))
	}
	return nil
}

// all reads all reports, and sends each batch that is large enough.
func (p *pusher) all(ctx context.Context) error {
	for begin := 0; begin < len(p.Files); begin += askFiles {
		keys := make(map[string]reportKey)
		for _, name := range p.Files[begin:min(begin+askFiles, len(p.Files))] {
			key, err := keyOfReport(name)
			if err != nil {
				p.bad = append(p.bad, err)
				continue
			}
			keys[name] = key
		}
		there, err := p.there(ctx, keys)
		if err != nil {
			return err
		}
		for _, name := range p.Files[begin:min(begin+askFiles, len(p.Files))] {
			key, ok := keys[name]
			if !ok {
				continue
			}
			if key.in(there) {
				p.known++
				continue
			}
			there[key.key] = true // also if it is in the list twice
			if err := p.report(ctx, name, key.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// there returns which reports the server has, by either key.
func (p *pusher) there(ctx context.Context, keys map[string]reportKey) (map[uint64]bool, error) {
	asked := clickhouse.External{Name: "asked", Structure: "report UInt64"}
	for _, key := range keys {
		asked.Body = clickhouse.AppendUint64(clickhouse.AppendUint64(asked.Body, key.key), key.older)
	}
	there := make(map[uint64]bool)
	if len(keys) == 0 {
		return there, nil
	}
	rows, err := p.ask(ctx, "SELECT DISTINCT report FROM devices WHERE report GLOBAL IN (SELECT report FROM asked)", asked)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if len(row) != 1 || row[0] == nil {
			return nil, errors.New("asking which reports are there: the answer is not a number")
		}
		key, err := strconv.ParseUint(*row[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("asking which reports are there: %w", err)
		}
		there[key] = true
	}
	return there, nil
}

// ask asks the server, again while it does not answer.
func (p *pusher) ask(ctx context.Context, statement string, with ...clickhouse.External) (rows [][]*string, err error) {
	err = p.client.Wait.Retry(ctx, p.again, func() error {
		rows, err = p.client.Query(ctx, statement, with...)
		return err
	})
	return rows, hint(err)
}

// hint adds what to do next.
func hint(err error) error {
	if clickhouse.NoTables(err) {
		return fmt.Errorf("%w; ustack export --ddl=clickhouse prints the tables that it needs", err)
	}
	return err
}

func (p *pusher) again(err error, wait time.Duration) {
	fmt.Fprintf(p.messages, "ustack: %v; trying again in %v\n", err, wait.Round(time.Millisecond))
}

// report adds a report to the batch, and sends it if it is large enough.
func (p *pusher) report(ctx context.Context, name string, key uint64) error {
	c, err := collect(&p.Reports, name, key, p.messages)
	if err != nil {
		p.bad = append(p.bad, err)
		return nil
	}
	p.batch.add(c, p.sent)
	if p.batch.size() < p.maxBytes {
		return ctx.Err()
	}
	return p.flush(ctx)
}

// flush sends the batch.
func (p *pusher) flush(ctx context.Context) error {
	n := p.batch.devices.Len()
	if n == 0 {
		return nil
	}
	err := p.client.Wait.Retry(ctx, p.again, func() error { return p.batch.send(ctx, p.client, time.Now()) })
	if err != nil {
		return hint(err)
	}
	p.pushed += n
	p.remember(p.batch.keys)
	p.batch.clear()
	return nil
}

// remember remembers stacks that the server has. One that is forgotten is sent again, which
// changes nothing there.
func (p *pusher) remember(stacks []uint64) {
	for _, stack := range stacks {
		if len(p.sent) >= maxSent {
			clear(p.sent)
		}
		p.sent[stack] = true
	}
}

// batch is a list of whole reports.
type batch struct {
	devices *clickhouse.Rows[deviceRow]
	stacks  *clickhouse.Rows[stackRow]
	frames  *clickhouse.Rows[frameRow]
	samples *clickhouse.Rows[sampleRow]
	keys    []uint64 // of the stacks
	has     map[uint64]bool
}

func newBatch() *batch {
	return &batch{
		devices: clickhouse.NewRows(deviceColumns()), stacks: clickhouse.NewRows(stackColumns()),
		frames: clickhouse.NewRows(frameColumns()), samples: clickhouse.NewRows(sampleColumns()), has: make(map[uint64]bool),
	}
}

// add adds a report, without the stacks that the server has.
func (b *batch) add(c *collector, sent map[uint64]bool) {
	for _, k := range c.inOrder() {
		if sent[k.row.Stack] || b.has[k.row.Stack] {
			continue
		}
		b.has[k.row.Stack] = true
		b.keys = append(b.keys, k.row.Stack)
		b.stacks.Add(&k.row)
		for i := range k.frames {
			b.frames.Add(&k.frames[i])
		}
	}
	for i := range c.samples {
		b.samples.Add(&c.samples[i])
	}
	b.devices.Add(&c.device)
}

func (b *batch) size() int {
	return b.devices.Size() + b.stacks.Size() + b.frames.Size() + b.samples.Size()
}

// send sends all of it, as a batch that did not exist before: what is left of one that failed
// does not count. The devices come last. Of stacks that differ but have the same key, the one
// that came first keeps the highest rank.
func (b *batch) send(ctx context.Context, client *clickhouse.Client, now time.Time) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it returns no error
	id, rank := binary.LittleEndian.Uint64(random[:]), ^uint64(now.UnixNano())
	for _, part := range []struct {
		statement string
		rows      []byte
	}{
		{insertInto(tableStacks, "rank", stackColumns()), b.stacks.Stamped(rank)},
		{insertInto(tableFrames, "rank", frameColumns()), b.frames.Stamped(rank)},
		{insertInto(tableSamples, "batch", sampleColumns()), b.samples.Stamped(id)},
		{insertInto(tableDevices, "batch", deviceColumns()), b.devices.Stamped(id)},
	} {
		if len(part.rows) == 0 {
			continue
		}
		if err := client.Insert(ctx, part.statement, part.rows); err != nil {
			return fmt.Errorf("sending %d reports: %w", b.devices.Len(), err)
		}
	}
	return nil
}

func (b *batch) clear() {
	b.devices.Clear()
	b.stacks.Clear()
	b.frames.Clear()
	b.samples.Clear()
	b.keys = b.keys[:0]
	clear(b.has)
}
