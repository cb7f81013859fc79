package diff_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/render/futex/diff"
)

// model is a program whose locks are known: what a report of it must say is drawn from it,
// by rules that know nothing of how reports are compared.
type model struct{ locks []modelLock }

type modelLock struct {
	function string
	variable string  // "" for one on the heap
	rate     float64 // waits per second
	wait     float64 // mean, ns
	burst    float64 // waits that come together, on average
	futexes  int
}

// build is how the program was compiled, and what is known of it.
type build struct {
	id       string
	stripped bool
	lines    bool
	inlined  map[string]bool // functions that are in their caller
}

func newModel(r *rand.Rand, n int) *model {
	m := new(model)
	for i := range n {
		l := modelLock{function: fmt.Sprintf("fn_%c%d", 'a'+i%26, i), rate: 20 + 500*r.Float64(), wait: 1e5 * (1 + 20*r.Float64()), burst: 1 + 4*r.Float64(), futexes: 1 + r.IntN(3)}
		if i%2 == 0 {
			l.variable = fmt.Sprintf("lock_%d", i)
		}
		m.locks = append(m.locks, l)
	}
	return m
}

type object = map[string]any

// report draws a run of some seconds. lost is the part of the waits that was lost.
func (m *model) report(r *rand.Rand, b build, seconds, lost float64) []byte {
	start, length := r.Int64N(1e12), int64(seconds*1e9)
	slice := int64(1)
	for length/slice >= 32 {
		slice *= 2
	}
	var rows []object
	var all, hidden int64
	for at, l := range m.locks {
		row, total, gone := m.row(r, &l, b, at, seconds, slice, lost)
		all += total
		hidden += gone
		rows = append(rows, row)
	}
	for _, row := range rows {
		if lost > 0 {
			row["bounds"] = object{"low_ns": row["total_ns"], "high_ns": row["total_ns"].(int64) + hidden}
		}
	}
	r.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
	sum := object{"waits": 1, "total_ns": all, "blocked_ns": 0, "low_ns": all, "high_ns": all + hidden}
	gaps := 0
	if lost > 0 {
		gaps = 3
	}
	doc, err := json.Marshal(object{
		"schema": "ustack.futex/1", "time_unit": "ns", "start_ns": start, "end_ns": start + length, "slice_ns": slice, "calls": 1,
		"contended": sum, "not_locks": object{}, "all": sum, "locks_total": len(rows), "locks": rows,
		"loss": object{"gaps": gaps, "bounded": true}, "verdict": object{"kind": "none"},
	})
	if err != nil {
		panic(err)
	}
	return doc
}

// row draws the waits for a lock: bursts come at random, waits are exponential.
func (m *model) row(r *rand.Rand, l *modelLock, b build, at int, seconds float64, slice int64, lost float64) (row object, total, gone int64) {
	counts, times, histogram := make([]int64, 32), make([]int64, 32), make(map[int64]int64)
	var waits int64
	for t := r.ExpFloat64() * l.burst / l.rate; t < seconds; t += r.ExpFloat64() * l.burst / l.rate {
		for range 1 + r.IntN(int(2*l.burst)) {
			d := int64(l.wait * r.ExpFloat64())
			if r.Float64() < lost {
				gone += d
				continue
			}
			i := int64(t*1e9) / slice
			counts[i]++
			times[i] += d
			waits++
			total += d
			from := int64(0)
			for from = 1; from*2 <= d; from *= 2 {
			}
			histogram[from]++
		}
	}
	var parts, buckets []object
	for i := range counts {
		if counts[i] > 0 {
			parts = append(parts, object{"at": i, "waits": counts[i], "total_ns": times[i]})
		}
	}
	for from := int64(1); from < 1<<60; from *= 2 {
		if histogram[from] > 0 {
			buckets = append(buckets, object{"from_ns": from, "count": histogram[from]})
		}
	}
	pid := r.IntN(30000)
	row = object{
		"address": fmt.Sprintf("%#x", r.Uint64()), "kind": "mutex", "waits": waits, "total_ns": total, "futexes": l.futexes, "histogram": buckets, "slices": parts,
		"process":     object{"tgid": pid, "comm": "server", "program": "/opt/" + b.id + "/server"},
		"wait_stacks": []object{{"stack": m.frames(l, b, at), "count": waits, "total_ns": total}}, "wakers": []object{},
		"holder_threads": []object{{"comm": fmt.Sprintf("worker-%d", r.IntN(64)), "total_ns": total}},
	}
	if l.variable != "" && !b.stripped {
		row["symbol"] = fmt.Sprintf("%s+%#x", l.variable, 8*r.IntN(9)+8)
	}
	return row, total, gone
}

// frames returns the stack of waits. Offsets are of the build.
func (m *model) frames(l *modelLock, b build, at int) (out []object) {
	add := func(path, id, function string, at int, inlined ...object) {
		f := object{"path": path, "build_id": id, "offset": fmt.Sprintf("%#x", len(b.id)*0x1000+at*64)}
		if !b.stripped || path != "/opt/"+b.id+"/server" {
			f["function"] = function
			if b.lines {
				f["line"], f["inlined"] = 7, inlined
			}
		}
		out = append(out, f)
	}
	program := "/opt/" + b.id + "/server"
	add("/lib/libc.so.6", "c0", "__lll_lock_wait", 1)
	add("/lib/libc.so.6", "c0", "pthread_mutex_lock", 2)
	if b.inlined[l.function] {
		add(program, b.id, "serve.constprop.0", 200+at, object{"function": l.function})
	} else {
		add(program, b.id, l.function+".isra."+fmt.Sprint(len(b.id)), 200+at)
		add(program, b.id, "serve", 100)
	}
	add("/lib/libc.so.6", "c0", "start_thread", 3)
	return out
}

func read(t testing.TB, doc []byte) *diff.Report {
	t.Helper()
	r, err := diff.Read(strings.NewReader(string(doc)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compare(t testing.TB, a, b *diff.Report) *diff.Diff {
	t.Helper()
	d, err := diff.Compare(a, b, diff.Options{Norm: diff.PerSecond, Threshold: diff.DefaultThreshold})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sure returns what has certainly changed, by function or variable.
func sure(d *diff.Diff) map[string]diff.State {
	out := make(map[string]diff.State)
	for _, c := range d.Changes {
		if c.State != diff.Uncertain {
			name := c.Variable
			if name == "" {
				name = strings.Join(c.Places, " ")
			}
			out[name] = c.State
		}
	}
	return out
}

// name is what a diff calls a lock.
func (l *modelLock) name(b ...build) string {
	if l.variable == "" || slices.ContainsFunc(b, func(b build) bool { return b.stripped }) {
		return l.function
	}
	return l.variable
}
