package tracefs

import "testing"

// TestUnwoundForms: how a frame was found, and why the stack ends, is noted whatever the
// frame has besides, and frames of an earlier run are not counted.
func TestUnwoundForms(t *testing.T) {
	for _, mark := range []Mark{NoMark, MarkLate, MarkClaimed, MarkInferred} {
		for how := range howCount {
			for stop := range stopCount {
				f := Frame{Form: FormIdentifier, ID: HashIdentifier(5)}
				f.SetUnwound(ByGoTable, AtLimit)
				f.SetMark(MarkClaimed)
				f.SetUnwound(how, stop)
				f.SetMark(mark)
				want := stop
				if how == ByKernel {
					want = NoStop
				}
				if h, s := f.Unwound(); h != how || s != want || f.Inferred() || f.Mark() != mark || f.ID != HashIdentifier(5) {
					t.Fatalf("%v %v %v: got %v %v %v", how, stop, mark, h, s, f.Mark())
				}
				f.SetInferred(true)
				if h, s := f.Unwound(); h != ByKernel || s != NoStop || !f.Inferred() || f.Mark() != mark {
					t.Fatalf("inferred, %v: got %v %v %v", mark, h, s, f.Mark())
				}
			}
		}
	}
}
