package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ustack/render/futex"
	futexreport "ustack/render/futex/report"
)

// Bounds of what Read takes: reports come from other users.
const (
	maxBytes  = 256 << 20
	maxRows   = 1 << 17
	maxStacks = 1 << 21 // of all rows together
	maxFrames = 1 << 22
	maxSlices = 32
	// maxNumber is the largest time or count: sums of a few of them fit into an int64.
	maxNumber = 1 << 60
)

// Report is a report of futexes, as far as it is compared.
type Report struct{ doc document }

// Is reports whether a file that begins with some bytes is a JSON document that Read may
// take, and not a trace.
func Is(begin []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(begin, " \t\r\n"), []byte("{")) && bytes.Contains(begin, []byte(`"ustack.futex/`))
}

// Of returns a report for comparison. The view that made it must not leave out locks.
func Of(r *futex.Report) (*Report, error) {
	var b bytes.Buffer
	if err := futexreport.JSON(&b, r); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return Read(&b)
}

// Read reads a JSON document of package report. It fails if that has another schema, or
// numbers that cannot be.
func Read(r io.Reader) (*Report, error) {
	var out Report
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	d := json.NewDecoder(limited)
	err := d.Decode(&out.doc)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = out.doc.check()
		} else if err == nil {
			err = errors.New("there is more after the document")
		}
	}
	if limited.N <= 0 {
		err = fmt.Errorf("it is longer than %d MB", maxBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	return &out, nil
}

// document is what is read of a JSON document.
type document struct {
	Schema       string    `json:"schema"`
	TimeUnit     string    `json:"time_unit"`
	Start        int64     `json:"start_ns"`
	End          int64     `json:"end_ns"`
	SliceTime    int64     `json:"slice_ns"`
	Calls        int64     `json:"calls"`
	Contended    sum       `json:"contended"`
	Signalled    sum       `json:"not_locks"`
	All          sum       `json:"all"`
	LockCount    int64     `json:"locks_total"`
	Locks        []row     `json:"locks"`
	OtherLocks   *row      `json:"locks_others"`
	SignalCount  int64     `json:"condvars_total"`
	Condvars     []row     `json:"condvars"`
	OtherSignals *row      `json:"condvars_others"`
	Blocked      []blocked `json:"blocked"`
	Verdict      struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"verdict"`
	Loss struct {
		Gaps    int64  `json:"gaps"`
		Refused uint64 `json:"refused"`
		Bounded bool   `json:"bounded"`
	} `json:"loss"`
}

type sum struct {
	Waits int64  `json:"waits"`
	Total int64  `json:"total_ns"`
	Open  int64  `json:"blocked_ns"`
	Low   *int64 `json:"low_ns"`
	High  *int64 `json:"high_ns"`
}

type row struct {
	Address string `json:"address"`
	File    string `json:"file"`
	Symbol  string `json:"symbol"`
	Role    string `json:"role"`
	Kind    string `json:"kind"`
	Group   string `json:"by"`
	Program string `json:"role_program"`
	Process *struct {
		Comm    string `json:"comm"`
		Program string `json:"program"`
	} `json:"process"`
	Futexes   int64 `json:"futexes"`
	Waits     int64 `json:"waits"`
	OpenWaits int64 `json:"open"`
	Total     int64 `json:"total_ns"`
	Open      int64 `json:"blocked_ns"`
	P99       int64 `json:"p99_ns"`
	Bounds    struct {
		Low  *int64 `json:"low_ns"`
		High *int64 `json:"high_ns"`
	} `json:"bounds"`
	Histogram []struct {
		From  int64 `json:"from_ns"`
		Count int64 `json:"count"`
	} `json:"histogram"`
	Slices []struct {
		At    int64 `json:"at"`
		Waits int64 `json:"waits"`
		Time  int64 `json:"total_ns"`
	} `json:"slices"`
	WaitStacks []stack  `json:"wait_stacks"`
	Wakers     []stack  `json:"wakers"`
	Holders    []thread `json:"holder_threads"`
}

type stack struct {
	Frames []frame `json:"stack"`
	Count  int64   `json:"count"`
	Time   int64   `json:"total_ns"`
}

type frame struct {
	Offset   string `json:"offset"`
	Path     string `json:"path"`
	BuildID  string `json:"build_id"`
	Function string `json:"function"`
	Line     int64  `json:"line"`
	Inlined  []struct {
		Function string `json:"function"`
	} `json:"inlined"`
}

type thread struct {
	Comm string `json:"comm"`
	Time int64  `json:"total_ns"`
}

// blocked is a wait that had not ended.
type blocked struct {
	Address string  `json:"address"`
	Time    int64   `json:"at_least_ns"`
	Stack   []frame `json:"stack"`
}
