package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/fleet"
)

// waitsOf returns a report with many waits, as TestScale writes them.
func waitsOf(number, waits int) *collector {
	random := rand.New(rand.NewPCG(19, uint64(number)))
	c := newCollector()
	c.head["clock_offset_ns"] = "1795700000000000000"
	c.head["boot_id"] = fmt.Sprintf("%08x-0000-4000-8000-000000000000", number)
	var list []*stack
	for i := range 1000 {
		list = append(list, c.addStack([]int{10 * i, 10*i + 1, 10*i + 2}))
	}
	at := int64(1e9)
	for range waits {
		stack, ns := list[random.IntN(len(list))], int64(random.ExpFloat64()*1e6)+1
		at += int64(random.ExpFloat64() * 1e6)
		from, tid := at, int32(random.IntN(16))
		row := sampleRow{Event: futexWait, Time: &from, TID: &tid, NS: &ns, LowNS: &ns, HighNS: &ns, Weight: 1, Result: some("woken")}
		row.at(stack)
		row.of(&lock{is: true, kind: "mutex"}, stack)
		c.samples = append(c.samples, row)
	}
	c.finish(uint64(number), "report", now())
	return c
}

// BenchmarkPush sends reports of 20,000 waits to a server that only reads, and, with
// USTACK_CLICKHOUSE=must, to ClickHouse: encoded by push, or bytes that were encoded before, so
// that the server is all that takes time.
func BenchmarkPush(b *testing.B) {
	const waits, reports = 20000, 50
	var list []*collector
	for i := range reports {
		list = append(list, waitsOf(i+1, waits))
	}
	pusherTo := func(b *testing.B, address string) *pusher {
		f, err := fleet.ParsePush([]string{"-q", address, "report"}, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		p, err := newPusher(f, os.Stderr, getenv, nil)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	perSecond := func(b *testing.B) { b.ReportMetric(waits*reports*float64(b.N)/b.Elapsed().Seconds(), "samples/s") }
	all := func(b *testing.B, address string) {
		p := pusherTo(b, address)
		for b.Loop() {
			for _, c := range list {
				if err := p.add(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
			if err := errors.Join(p.handOver(context.Background()), p.wait()); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	}
	b.Run("encode", func(b *testing.B) {
		batch := newBatch()
		for b.Loop() {
			for _, c := range list {
				if batch.add(c, nil); batch.size() > batchBytes {
					batch.clear()
				}
			}
		}
		perSecond(b)
	})
	b.Run("sink", func(b *testing.B) {
		sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		defer sink.Close()
		all(b, "clickhouse://"+strings.TrimPrefix(sink.URL, "http://"))
	})
	if os.Getenv("USTACK_CLICKHOUSE") != "must" {
		return
	}
	s := servers(b, 1)[0]
	s.create("--ddl=clickhouse")
	b.Run("clickhouse", func(b *testing.B) { all(b, s.address()) })
	b.Run("bytes", func(b *testing.B) {
		p := pusherTo(b, s.address())
		for _, c := range list {
			if p.batch.size() < batchBytes {
				p.batch.add(c, nil)
			}
		}
		n := p.batch.samples.Len()
		for b.Loop() {
			if err := p.batch.send(context.Background(), p.client, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
	})
}
