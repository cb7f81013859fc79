package diff

import (
	"io"
	"math"
	"strings"

	"ustack/render/framejson"
)

// Schema names the form of the JSON document. The number changes when a program that
// reads it would have to change; new keys do not change it.
const Schema = "ustack.futex-diff/1"

type diffJSON struct {
	Schema    string       `json:"schema"`
	TimeUnit  string       `json:"time_unit"`
	Norm      Norm         `json:"per"`
	Threshold float64      `json:"threshold"`
	Method    string       `json:"method"`
	Differs   bool         `json:"differs"`
	Compared  int          `json:"compared"`
	Sides     [2]totalJSON `json:"sides"`
	Changes   []changeJSON `json:"changes"`
	Limits    []string     `json:"limits"`
}

type totalJSON struct {
	Length float64 `json:"length_ns"`
	Waited float64 `json:"locks"`
	Alien  float64 `json:"not_aligned"`
	LockUp string  `json:"lock_up,omitempty"`
}

type changeJSON struct {
	State    State       `json:"state"`
	Class    string      `json:"class"`
	Program  string      `json:"program,omitempty"`
	Variable string      `json:"variable,omitempty"`
	Places   []string    `json:"places"`
	Why      string      `json:"why,omitempty"`
	Sides    [2]sideJSON `json:"sides"`
}

type sideJSON struct {
	Kind    string   `json:"kind,omitempty"`
	Value   float64  `json:"value"`
	Error   float64  `json:"standard_error"`
	Low     float64  `json:"low"`
	High    *float64 `json:"high,omitempty"` // absent if there is no bound
	Time    float64  `json:"total_ns"`
	Waits   float64  `json:"waits"`
	P99     float64  `json:"p99_ns,omitempty"`
	Futexes int      `json:"futexes"`
	Holder  string   `json:"holder,omitempty"`
	Held    float64  `json:"holder_share,omitempty"`
}

// JSON writes a diff as one document.
func JSON(w io.Writer, d *Diff) error {
	out := diffJSON{
		Schema: Schema, TimeUnit: "ns", Norm: d.Options.Norm, Threshold: d.Options.Threshold, Method: d.Method(),
		Differs: d.Differs(), Compared: d.Compared, Changes: []changeJSON{}, Limits: append([]string{}, d.Limits...),
	}
	if d.Ticks {
		out.TimeUnit = "ticks"
	}
	for i := range out.Sides {
		out.Sides[i] = totalJSON{d.Lengths[i], d.Waited[i], d.Alien[i], d.LockUps[i]}
	}
	for _, c := range d.Changes {
		x := changeJSON{State: c.State, Class: c.Class, Program: clean(c.Program), Variable: clean(c.Variable), Places: []string{}, Why: c.Why}
		for _, p := range c.Places {
			x.Places = append(x.Places, clean(p))
		}
		for i := range c.Sides {
			x.Sides[i] = c.Sides[i].json()
		}
		out.Changes = append(out.Changes, x)
	}
	return framejson.Write(w, &out)
}

func (s *Side) json() sideJSON {
	out := sideJSON{s.Kind, s.Value, s.Error, s.Low, nil, s.Time, s.Waits, s.P99, s.Futexes, clean(s.Holder), s.Held}
	if !math.IsInf(s.High, 0) {
		out.High = &s.High
	}
	return out
}

// clean makes valid UTF-8; control characters are escaped by the encoder.
func clean(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
