package report

import (
	"io"

	"ustack/render/framejson"
	"ustack/render/wait"
	"ustack/tracefs"
)

// Schema names the form of the JSON document. The number changes when a program that
// reads it would have to change; new keys do not change it.
const Schema = "ustack.wait/1"

// document is the whole JSON document. Keys that end in _ns are nanoseconds, or ticks of
// the trace's clock if time_unit says so.
type document struct {
	Schema   string        `json:"schema"`
	TimeUnit string        `json:"time_unit"`
	By       wait.By       `json:"by"`
	Start    tracefs.Time  `json:"start_ns"`
	End      tracefs.Time  `json:"end_ns"`
	Known    sumJSON       `json:"known"`
	Events   sumJSON       `json:"for_events"`
	Kinds    []kindJSON    `json:"kinds"`
	Unknown  []unknownJSON `json:"unknown"`
	Doubt    doubtJSON     `json:"uncertain"`
	Before   doubtJSON     `json:"began_before"`
	RowCount int           `json:"rows_total"`
	Rows     []rowJSON     `json:"rows"`
	Threads  int           `json:"threads_total"`
	Loss     lossJSON      `json:"loss"`
	Notes    []string      `json:"notes"`
}

type sumJSON struct {
	Waits    int64        `json:"waits"`
	Time     tracefs.Time `json:"total_ns"`
	Ready    tracefs.Time `json:"runnable_ns"`
	Unsplit  int64        `json:"without_wakeup"`
	Open     int64        `json:"open"`
	OpenTime tracefs.Time `json:"open_ns"`
}

type kindJSON struct {
	Kind   string `json:"kind"`
	Events bool   `json:"for_events"`
	sumJSON
}

type unknownJSON struct {
	Why string `json:"why"`
	sumJSON
}

// doubtJSON is of waits whose time is an upper bound.
type doubtJSON struct {
	Waits  int64        `json:"waits"`
	AtMost tracefs.Time `json:"at_most_ns"`
}

type rowJSON struct {
	Rank int `json:"rank"`
	sumJSON
	Disk      tracefs.Time       `json:"uninterruptible_ns"`
	Doubt     doubtJSON          `json:"uncertain"`
	Slept     int64              `json:"in_distribution"`
	Mean      tracefs.Time       `json:"mean_ns"`
	P50       tracefs.Time       `json:"p50_ns"`
	P99       tracefs.Time       `json:"p99_ns"`
	Max       tracefs.Time       `json:"max_ns"`
	Histogram []framejson.Bucket `json:"histogram"`
	Sites     []siteJSON         `json:"sites"`
	Threads   []threadJSON       `json:"threads"`
	Wakers    []wakerJSON        `json:"wakers"`
	Longest   *longestJSON       `json:"longest,omitempty"`
}

type siteJSON struct {
	Kind string `json:"kind"`
	Call string `json:"call,omitempty"`
	Why  string `json:"why_unknown,omitempty"`
	framejson.Stack
	sumJSON
}

type threadJSON struct {
	TID  int32  `json:"tid"`
	Comm string `json:"comm"`
	sumJSON
}

type wakerJSON struct {
	TID       int32        `json:"tid,omitempty"`
	Comm      string       `json:"comm,omitempty"`
	Interrupt bool         `json:"interrupt,omitempty"`
	Waits     int64        `json:"waits"`
	Time      tracefs.Time `json:"total_ns"`
	framejson.Stack
}

type longestJSON struct {
	From  tracefs.Time `json:"from_ns"`
	Time  tracefs.Time `json:"time_ns"`
	TID   int32        `json:"tid"`
	Comm  string       `json:"comm"`
	Waker wakerJSON    `json:"waker"`
}

type lossJSON struct {
	Gaps      int64  `json:"gaps"`
	Records   uint64 `json:"records"`
	Unknown   bool   `json:"more,omitempty"`
	Refused   uint64 `json:"refused"`
	Late      bool   `json:"late,omitempty"`
	Forgotten int64  `json:"threads_forgotten"`
}

// JSON writes a report as one document.
func JSON(w io.Writer, r *wait.Report) error {
	d := document{Schema: Schema, TimeUnit: "ns", By: r.By, Start: r.Start, End: r.End, Known: sumOf(&r.Known), Events: sumOf(&r.Events),
		Kinds: []kindJSON{}, Unknown: []unknownJSON{}, Doubt: doubtJSON(r.Doubt), Before: doubtJSON(r.Before), RowCount: r.RowCount, Rows: []rowJSON{},
		Threads: r.ThreadCount, Loss: lossJSON(r.Loss), Notes: append([]string{}, r.Notes...)}
	if r.Ticks {
		d.TimeUnit = "ticks"
	}
	for _, k := range r.Kinds {
		d.Kinds = append(d.Kinds, kindJSON{k.Kind.String(), k.Kind.Events(), sumOf(&k.Sum)})
	}
	for _, u := range r.Unknown {
		d.Unknown = append(d.Unknown, unknownJSON{u.Why.String(), sumOf(&u.Sum)})
	}
	for _, x := range r.Rows {
		d.Rows = append(d.Rows, rowOf(x))
	}
	return framejson.Write(w, &d)
}

func sumOf(s *wait.Sum) sumJSON {
	return sumJSON{Waits: s.Waits, Time: s.Time, Ready: s.Ready, Unsplit: s.Unsplit, Open: s.Open, OpenTime: s.OpenTime}
}

func rowOf(r *wait.Row) rowJSON {
	out := rowJSON{Rank: r.Rank, sumJSON: sumOf(&r.Sum), Disk: r.Disk, Doubt: doubtJSON(r.Doubt), Slept: r.Slept, Mean: r.Mean, P50: r.P50, P99: r.P99, Max: r.Max,
		Histogram: []framejson.Bucket{}, Sites: []siteJSON{}, Threads: []threadJSON{}, Wakers: []wakerJSON{}}
	for _, b := range r.Histogram {
		out.Histogram = append(out.Histogram, framejson.Bucket{From: b.From, Count: b.Count})
	}
	for i := range r.Sites {
		s := &r.Sites[i]
		out.Sites = append(out.Sites, siteJSON{s.Kind.String(), framejson.Clean(s.Call), s.Why.String(), framejson.StackOf(s.Stack, s.None), sumOf(&s.Sum)})
	}
	for i := range r.Threads {
		t := &r.Threads[i]
		out.Threads = append(out.Threads, threadJSON{t.TID, framejson.Clean(t.Comm), sumOf(&t.Sum)})
	}
	for i := range r.Wakers {
		out.Wakers = append(out.Wakers, wakerOf(&r.Wakers[i]))
	}
	if x := r.Longest; x != nil {
		out.Longest = &longestJSON{x.From, x.Time, x.Thread.TID, framejson.Clean(x.Thread.Comm), wakerOf(&x.Waker)}
	}
	return out
}

func wakerOf(w *wait.Waker) wakerJSON {
	return wakerJSON{w.TID, framejson.Clean(w.Comm), w.Interrupt, w.Waits, w.Time, framejson.StackOf(w.Stack, w.None)}
}
