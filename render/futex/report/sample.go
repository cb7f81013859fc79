//go:build !device

package report

import (
	"cmp"
	"fmt"
	"strconv"

	"ustack/filemap/symbol"
	"ustack/render/framejson"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/render/stackset"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

const (
	// fewSamples is how many samples the answer has at least.
	fewSamples = 10
	// mostPlaces is how many places a line has.
	mostPlaces = 3
	// leastPlace is the least share of the samples, in percent, of a place after the first.
	leastPlace = 5
)

// sampledPlace is a function, or a place without one, with the samples in it.
type sampledPlace struct {
	stack *futex.Stack // the one with most samples
	most  int64
	count int64
	order int
}

// sampledPlaces adds up samples by function, the most first. Where the innermost function is
// one of the C library, they are also by the one that called it from elsewhere.
func sampledPlaces(list []futex.Sampled) (out []*sampledPlace) {
	places := make(map[string]*sampledPlace)
	for _, s := range list {
		if s.Stack == nil || len(s.Stack.Frames) == 0 {
			continue
		}
		key := sampledKey(s.Stack)
		p := places[key]
		if p == nil {
			p = &sampledPlace{stack: s.Stack, most: s.Count, order: len(out)}
			places[key] = p
			out = append(out, p)
		}
		if p.count += s.Count; s.Count > p.most {
			p.stack, p.most = s.Stack, s.Count
		}
	}
	sorting.Func(out, func(x, y *sampledPlace) int { return cmp.Or(cmp.Compare(y.count, x.count), x.order-y.order) })
	return out
}

// sampledKey is what samples have in common that are of one place.
func sampledKey(s *futex.Stack) string {
	f := &s.Frames[0]
	key, named := codeKey(f)
	switch {
	case named && !f.InLibc():
		return key
	case !named && f.File != nil:
		key = f.File.Path // each sample is at another place in it
	}
	for i := 1; i < len(s.Frames); i++ {
		if f := &s.Frames[i]; f.File != nil && !f.InLibc() {
			outer, _ := codeKey(f)
			return key + "\x00\x00" + outer
		}
	}
	return key
}

// codeKey is a function, or else a place, in a file.
func codeKey(f *stackset.Frame) (key string, named bool) {
	at := f.Address
	if f.File != nil {
		key, at = f.File.Path, f.Offset
	}
	if n := f.Name; n != nil && n.Reason == symbol.NoReason {
		return key + "\x00" + innermost(n), true
	}
	return key + "\x00" + strconv.FormatUint(at, 16), false
}

// innermost returns the function that is inlined deepest.
func innermost(n *symbol.Name) string {
	if len(n.Inlined) > 0 {
		return n.Inlined[0].Function
	}
	return n.Function
}

// code names the place.
func (p *sampledPlace) code() string {
	f := &p.stack.Frames[0]
	if !f.InLibc() {
		return phrase.Callers(p.stack)
	}
	if !phrase.Leaves(p.stack) {
		return phrase.Frame(f)
	}
	return phrase.Frame(f) + " < " + phrase.Callers(p.stack)
}

// share says how much of the samples a place has.
func (p *sampledPlace) share(all int64) string {
	return phrase.Percent(tracefs.Time(p.count), tracefs.Time(all))
}

// running says in a line where owners ran most, "" if too few samples show that.
func (t holdText) running(h *futex.Holds) string {
	if h == nil || h.Samples < fewSamples {
		return ""
	}
	places := sampledPlaces(h.Sampled)
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf("at %s (%s of %d samples)", places[0].code(), places[0].share(h.Samples), h.Samples)
}

// sampled writes where owners ran.
func (t holdText) sampled(label string, all int64, list []futex.Sampled, most int) {
	places := sampledPlaces(list)
	if len(places) == 0 {
		return
	}
	for i, p := range places[:min(len(places), most)] {
		switch {
		case i == 0:
			t.f("      %-11s %s of %s at %s\n", label, p.share(all), phrase.Plural64(all, "sample"), p.code())
		case p.count*100 < all*leastPlace:
			return
		default:
			t.f("      %-11s %s at %s\n", "", p.share(all), p.code())
		}
	}
}

// sampledJSON are samples with a stack.
type sampledJSON struct {
	Count  int64             `json:"count"`
	Frames []framejson.Frame `json:"stack,omitempty"`
}

// sampledOf lists samples; what has no stack is last.
func sampledOf(list []futex.Sampled) []sampledJSON {
	var out []sampledJSON
	for _, s := range list {
		out = append(out, sampledJSON{s.Count, framejson.Frames(s.Stack)})
	}
	return out
}
