package text

import (
	"testing"

	"ustack/tracefs"
)

// TestUnwoundStack: what a title says of how a stack was unwound is noted in its frames,
// and in no others.
func TestUnwoundStack(t *testing.T) {
	const head = "            prog-123     [000] .....     1.000001: "
	const frames = " =>  <0000000000001000>\n =>  <0000000000002000>\n"
	in := head + "<user stack trace> unwound=registers,cfi end=root\n" + frames +
		head + "<user stack trace>\n" + frames +
		head + "<user stack trace> unwound=registers,fp end=copy-too-short\n" + frames
	b := &tracefs.Batch{Text: []byte(in)}
	if _, err := NewScanner().Scan(b, MoreNever); err != nil {
		t.Fatal(err)
	}
	want := [][2]tracefs.How{{tracefs.ByRegisters, tracefs.ByCFI}, {}, {tracefs.ByRegisters, tracefs.ByFramePointer}}
	ends := []tracefs.Stop{tracefs.AtRoot, tracefs.NoStop, tracefs.AtCopy}
	if len(b.Records) != len(want) {
		t.Fatalf("%d records, want %d", len(b.Records), len(want))
	}
	for i := range b.Records {
		list, _ := b.StackFrames(&b.Records[i])
		if len(list) != 2 {
			t.Fatalf("stack %d has %d frames", i, len(list))
		}
		for k := range list {
			how, stop := list[k].Unwound()
			end := tracefs.NoStop
			if k == 1 {
				end = ends[i]
			}
			if how != want[i][k] || stop != end || list[k].Form != tracefs.FormPlain {
				t.Errorf("stack %d, frame %d: %v, %v, want %v, %v", i, k, how, stop, want[i][k], end)
			}
		}
	}
}
