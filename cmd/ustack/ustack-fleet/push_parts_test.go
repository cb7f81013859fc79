package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/fleet"
)

// TestPushParts: samples of a batch go in parts by several connections. If one of them fails, all
// of the batch is sent again, and the row of the report comes after all of its samples. The next
// batch does not have the stacks again.
func TestPushParts(t *testing.T) {
	const reports = 2
	var (
		mu      sync.Mutex
		failed  bool
		samples = make(map[uint64]int) // bytes, by batch
		parts   = make(map[uint64]int)
		whole   []int // bytes of the samples that a report has when it comes
		inserts = make(map[string]int)
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		table, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Query().Get("query"), "INSERT INTO "), " ")
		if err != nil || len(body) < 8 {
			t.Errorf("%d bytes for %s, %v", len(body), table, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id := binary.LittleEndian.Uint64(body)
		switch table {
		case tableSamples:
			if !failed {
				failed = true
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			samples[id] += len(body)
			parts[id]++
		case tableDevices:
			whole = append(whole, samples[id])
			if parts[id] < 2 {
				t.Errorf("samples in %d parts", parts[id])
			}
		default:
			inserts[table]++
		}
	}))
	defer server.Close()
	f, err := fleet.ParsePush([]string{"-q", "clickhouse://" + strings.TrimPrefix(server.URL, "http://"), "report"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	p, err := newPusher(f, &messages, getenv, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.maxBytes, p.client.Wait.First = 1, time.Millisecond
	var want []int
	for i := range reports {
		c := waitsOf(i+1, 2*partBytes/100)
		b := newBatch()
		b.add(c, nil)
		want = append(want, b.samples.Size())
		if err := p.add(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.handOver(context.Background()), p.wait()); err != nil {
		t.Fatal(err)
	}
	if len(whole) != reports || whole[0] != want[0] || whole[1] != want[1] || p.pushed != reports {
		t.Errorf("%d reports came after %d bytes of samples, want %d", p.pushed, whole, want)
	}
	if inserts[tableStacks] != 2 || inserts[tableFrames] != 2 || strings.Count(messages.String(), "trying again") != 1 {
		t.Errorf("inserts %v\n%s", inserts, &messages)
	}
}
