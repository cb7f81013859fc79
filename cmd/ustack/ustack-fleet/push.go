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
	"sync"
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
	spare  *batch          // nil if it is under way
	ended  chan error      // of the batch that is under way, nil if none is
	sent   map[uint64]bool // stacks that the server has, some of them
	pushed int
	known  int
	bad    []error
}

// Sizes of what is sent at once: fewer, larger parts cost a server less; the batch is in
// memory.
const (
	batchBytes = 24 << 20
	partBytes  = 8 << 20 // of samples, by one connection
	maxSent    = 1 << 20 // stacks that are remembered: watch does not end
	askFiles   = 256     // reports of which the server is asked at once whether it has them
)

func newPusher(f *fleet.Push, messages io.Writer, getenv func(string) string, transport http.RoundTripper) (*pusher, error) {
	credentials, err := fleet.LoadCredentials(f.Credentials, getenv)
	if err != nil {
		return nil, err
	}
	p := &pusher{Push: f, client: clickhouse.New(f.To, credentials, transport), messages: &shared{w: messages}, maxBytes: batchBytes, batch: newBatch(), spare: newBatch(), sent: make(map[uint64]bool)}
	p.client.Wait.Total = f.Retry
	return p, nil
}

// run sends the reports. One that cannot be read is left out, and is an error at the end.
func (p *pusher) run(ctx context.Context) error {
	err := p.all(ctx)
	if err == nil {
		err = p.handOver(ctx)
	}
	err = errors.Join(err, p.wait())
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

// report reads a report and adds it to the batch.
func (p *pusher) report(ctx context.Context, name string, key uint64) error {
	c, err := collect(&p.Reports, name, key, p.messages)
	if err != nil {
		p.bad = append(p.bad, err)
		return nil
	}
	return p.add(ctx, c)
}

// add adds the rows of a report to the batch, and has it sent if it is large enough.
func (p *pusher) add(ctx context.Context, c *collector) error {
	p.batch.add(c, p.sent)
	if p.batch.size() < p.maxBytes {
		return ctx.Err()
	}
	return p.handOver(ctx)
}

// handOver has the batch sent while the next one is filled. Batches are sent one after the other,
// and none after one that failed: so the next ones need not have its stacks.
func (p *pusher) handOver(ctx context.Context) error {
	if err := p.wait(); err != nil {
		return err
	}
	b := p.batch
	p.batch, p.spare = p.spare, b
	p.remember(b.keys)
	p.ended = make(chan error, 1)
	go func(ended chan<- error) { ended <- p.send(ctx, b) }(p.ended)
	return nil
}

// wait waits until the batch that is under way has been sent.
func (p *pusher) wait() error {
	if p.ended == nil {
		return nil
	}
	err := <-p.ended
	p.ended = nil
	if err == nil {
		p.pushed += p.spare.devices.Len()
		p.spare.clear()
	}
	return err
}

// flush sends the batch, and waits for that.
func (p *pusher) flush(ctx context.Context) error {
	if err := p.send(ctx, p.batch); err != nil {
		return err
	}
	p.pushed += p.batch.devices.Len()
	p.remember(p.batch.keys)
	p.batch.clear()
	return nil
}

// send sends a batch, again while the server does not answer.
func (p *pusher) send(ctx context.Context, b *batch) error {
	if b.devices.Len() == 0 {
		return nil
	}
	return hint(p.client.Wait.Retry(ctx, p.again, func() error { return b.send(ctx, p.client, time.Now()) }))
}

// shared is a writer that several goroutines may use.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
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
		rows      [][]byte // at once
	}{
		{insertInto(tableStacks, "rank", stackColumns()), b.stacks.Parts(rank, 1)},
		{insertInto(tableFrames, "rank", frameColumns()), b.frames.Parts(rank, 1)},
		{insertInto(tableSamples, "batch", sampleColumns()), b.samples.Parts(id, b.samples.Size()/partBytes)},
		{insertInto(tableDevices, "batch", deviceColumns()), b.devices.Parts(id, 1)},
	} {
		if err := insertAll(ctx, client, part.statement, part.rows); err != nil {
			return fmt.Errorf("sending %d reports: %w", b.devices.Len(), err)
		}
	}
	return nil
}

// insertAll inserts rows, each part of them by a connection of its own, as a server takes an
// insert with one thread.
func insertAll(ctx context.Context, client *clickhouse.Client, statement string, parts [][]byte) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, rows := range parts {
		all.Go(func() { errs[i] = client.Insert(ctx, statement, rows) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
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
