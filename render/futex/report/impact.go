package report

import (
	"fmt"
	"strconv"
	"strings"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// impact writes what the run time depends on.
func (t *text) impact() {
	i := t.r.Impact
	if i == nil {
		return
	}
	if p := i.Path; p != nil {
		all := p.To - p.From
		t.f("\nCritical path of %s to thread %d, %s from waiter to waker:\n", t.time(all), p.Last, phrase.Plural(p.Jumps, "jump"))
		t.f("  runs %s, runnable %s, timer or device %s, unknown %s\n",
			share(p.Running, all), share(p.Runnable, all), share(p.Blocked, all), share(p.Unknown, all))
		for n, l := range i.Locks {
			if t.opt.Top > 0 && n >= t.opt.Top {
				t.f("  %d more, see --top\n", len(i.Locks)-n)
				break
			}
			t.f("  %s on the path, %s waits: %s\n", share(l.Time, all), t.time(l.Lock.Time+l.Lock.OpenTime), kindName(l.Lock)+" "+where(l.Lock))
			if l.Lock.Contends() && loud(i, n) {
				t.f("    loud, but off the path: fixing it gains at most that\n")
			}
		}
	}
	t.prediction(i)
	if i.Err != nil {
		t.f("\nImpact: %s\n", phrase.Printable(i.Err.Error()))
	}
}

// loud reports whether a lock is waited for more than all others, and hardly on the path.
func loud(i *futex.Impact, n int) bool {
	l := &i.Locks[n]
	if l.Time*20 > i.Path.To-i.Path.From {
		return false
	}
	return l.Lock.Rank == 1 && l.Lock.Contends()
}

func (t *text) prediction(i *futex.Impact) {
	p := i.Prediction
	if p == nil {
		return
	}
	var names []string
	for _, c := range i.Changes {
		names = append(names, phrase.Printable(c.String()))
	}
	t.f("\nWhat if %s:\n", strings.Join(names, ", "))
	t.f("  %s in place of %s (%s; %s to %s), waits for locks %s in place of %s\n", t.time(p.Time), t.time(p.Recorded),
		signed(float64(p.Time-p.Recorded)/float64(max(p.Recorded, 1))), t.time(p.Low), t.time(p.High), t.time(p.Remain), t.time(p.Waits))
	t.f("  a replay without change is %s off; assumes the same work and CPUs, no new\n", signed(p.Error))
	t.f("  bottleneck, and holds without a trace (%s of all time) like others\n", strconv.FormatFloat(100*p.Unseen, 'f', 1, 64)+" %")
}

// share writes a part in percent, with one digit: less than a percent counts here.
func share(part, whole tracefs.Time) string {
	return strconv.FormatFloat(100*float64(part)/float64(max(whole, 1)), 'f', 1, 64) + " %"
}

func signed(part float64) string { return fmt.Sprintf("%+.1f %%", 100*part) }

// impactJSON is the critical path, and a prediction.
type impactJSON struct {
	From       tracefs.Time     `json:"from_ns"`
	To         tracefs.Time     `json:"to_ns"`
	Running    tracefs.Time     `json:"running_ns"`
	Runnable   tracefs.Time     `json:"runnable_ns"`
	Blocked    tracefs.Time     `json:"timer_or_device_ns"`
	Unknown    tracefs.Time     `json:"unknown_ns"`
	Jumps      int              `json:"jumps"`
	Locks      []impactLockJSON `json:"locks"`
	Prediction *predictionJSON  `json:"what_if,omitempty"`
	Error      string           `json:"error,omitempty"`
}

type impactLockJSON struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"`
	Time    tracefs.Time `json:"on_path_ns"`
	Waits   tracefs.Time `json:"total_ns"`
}

type predictionJSON struct {
	Changes  []string     `json:"changes"`
	Recorded tracefs.Time `json:"recorded_ns"`
	Replayed tracefs.Time `json:"replayed_ns"`
	Time     tracefs.Time `json:"predicted_ns"`
	Low      tracefs.Time `json:"low_ns"`
	High     tracefs.Time `json:"high_ns"`
	Waits    tracefs.Time `json:"waits_ns"`
	Remain   tracefs.Time `json:"remaining_waits_ns"`
	Unseen   float64      `json:"unseen_holds"`
	Scatter  float64      `json:"scatter"`
}

// impactOf returns the impact of locks, nil if it was not asked for.
func impactOf(r *futex.Report) *impactJSON {
	i := r.Impact
	if i == nil {
		return nil
	}
	out := &impactJSON{Locks: []impactLockJSON{}}
	if i.Err != nil {
		out.Error = i.Err.Error()
	}
	if p := i.Path; p != nil {
		out.From, out.To, out.Running, out.Runnable, out.Blocked, out.Unknown, out.Jumps = p.From, p.To, p.Running, p.Runnable, p.Blocked, p.Unknown, p.Jumps
	}
	for _, l := range i.Locks {
		out.Locks = append(out.Locks, impactLockJSON{fmt.Sprintf("%#x", l.Lock.Address), l.Lock.Kind.String(), l.Time, l.Lock.Time + l.Lock.OpenTime})
	}
	if p := i.Prediction; p != nil {
		out.Prediction = &predictionJSON{Recorded: p.Recorded, Replayed: p.Replayed, Time: p.Time, Low: p.Low, High: p.High, Waits: p.Waits, Remain: p.Remain, Unseen: p.Unseen, Scatter: p.Scatter}
		for _, c := range i.Changes {
			out.Prediction.Changes = append(out.Prediction.Changes, c.String())
		}
	}
	return out
}
