package symbolize

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// spelled are names that spell what was asked.
type spelled struct{ asked int }

func (s *spelled) Name(f *filemap.File, offset uint64, ran bool) *symbol.Name {
	s.asked++
	return &symbol.Name{Function: fmt.Sprint(f.Path, offset, ran)}
}

func (s *spelled) Skipped(inner, outer symbol.Place) *symbol.Skipped {
	return &symbol.Skipped{Name: &symbol.Name{Function: fmt.Sprint(inner.File.Path, inner.Offset, inner.Ran, outer.File.Path, outer.Offset, outer.Calls)}}
}

// asked is a stack that a Stage names.
type asked struct {
	frames    []tracefs.Frame
	out       []resolve.Attribution
	innermost bool
}

// variants are stacks that differ in one thing each.
func variants() []asked {
	files := []*filemap.File{{Path: "a"}, {Path: "b"}}
	jit := &filemap.Memory{Name: "code", Exec: true, Code: &filemap.Code{Function: "jit"}}
	change := []func(*asked){
		func(*asked) {},
		func(s *asked) { s.innermost = false },
		func(s *asked) { s.frames, s.out = s.frames[:2], s.out[:2] },
	}
	for k := range 3 {
		change = append(change,
			func(s *asked) { s.out[k].File = files[1] },
			func(s *asked) { s.out[k].Offset++ },
			func(s *asked) { s.out[k].HasOffset = false },
			func(s *asked) { s.out[k].Calls = 7 },
			func(s *asked) { s.out[k] = resolve.Unnamed(filemap.NoVMA) },
			func(s *asked) { s.out[k] = resolve.Attribution{Memory: jit, Reason: filemap.Anonymous} },
			func(s *asked) { s.frames[k].SetInferred(true) },
			func(s *asked) { s.frames[k].SetUnwound(tracefs.ByCFI, tracefs.NoStop) },
			func(s *asked) { s.frames[k].SetUnwound(tracefs.BySignal, tracefs.NoStop) })
	}
	var list []asked
	for _, f := range change {
		s := asked{make([]tracefs.Frame, 3), make([]resolve.Attribution, 3), true}
		for k := range s.out {
			s.frames[k].Addr, s.frames[k].HasAddr = 9, true
			s.out[k] = resolve.Attribution{File: files[0], Offset: uint64(k), HasOffset: true}
		}
		f(&s)
		list = append(list, s)
	}
	return list
}

// TestStageMemo: the functions of a stack are the same, whichever stacks came before,
// and one that keeps coming is not looked up again.
func TestStageMemo(t *testing.T) {
	const rounds = 50000
	r := rand.New(rand.NewPCG(1, 2))
	names := new(spelled)
	s, list := NewStage(names), variants()
	for range rounds {
		a := list[r.IntN(len(list))]
		for range r.IntN(4) {
			got := s.functions(nil, a.frames, a.out, a.innermost)
			for k := range a.frames {
				if g, w := spell(got[k]), spell(s.function(nil, a.frames, a.out, k, a.innermost)); g != w {
					t.Fatalf("frame %d of %+v is %s, want %s", k, a, g, w)
				}
			}
		}
	}
	for range 3 {
		s.functions(nil, list[0].frames, list[0].out, true)
	}
	before := names.asked
	s.functions(nil, list[0].frames, list[0].out, true)
	if names.asked != before {
		t.Error("a stack that has come three times is looked up again")
	}
}

func spell(f symbol.Function) string {
	s := "no name"
	if f.Name != nil {
		s = f.Name.Function
	}
	if f.Skipped != nil {
		s += " " + f.Skipped.Name.Function
	}
	return s
}

// TestStage: each stack that a renderer shows has names, a deferred one in the batches
// of its events, too.
func TestStage(t *testing.T) {
	const (
		frame = " =>  <0000000000000010> : path=/bin/true build_id={0x0,0x0,0x0,0x0,0x0}\n"
		head  = "             cat-7       [000] d..1.   100.00000"
	)
	in := head + "1: event: x=1\n" + head + "2: <user stack unwind>\ncookie=5\n" + frame +
		head + "3: event: x=2\n" + head + "4: <user stack trace>\n" + frame
	for _, stitch := range []bool{false, true} {
		scan := text.NewScanner()
		scan.Events = stitch
		b := &tracefs.Batch{Text: []byte(in)}
		if used, err := scan.Scan(b, text.MoreNever); err != nil || used != len(in) {
			t.Fatal(used, err)
		}
		res := resolve.New(resolve.Options{Stitch: stitch})
		res.Add(b)
		res.End()
		h := res.Next()
		if h == nil {
			t.Fatal("no batch")
		}
		if h.StackFunctions(0) != nil {
			t.Error("there are functions before the stage")
		}
		NewStage(new(spelled)).Batch(h)
		shown := 0
		for i := range h.Records {
			var functions []symbol.Function
			switch {
			case stitch && h.Attached[i].Stack != nil:
				functions = h.Attached[i].Stack.Functions
			case h.Records[i].Kind == tracefs.KindStack && !(stitch && h.Attached[i].Taken):
				functions = h.StackFunctions(i)
			default:
				continue
			}
			shown++
			if len(functions) != 1 || functions[0].Name == nil || functions[0].Name.Function != "/bin/true16 true" {
				t.Errorf("stitched %v: record %d has %+v", stitch, i, functions)
			}
		}
		if shown != 2 {
			t.Errorf("stitched %v: %d stacks are shown", stitch, shown)
		}
	}
}
