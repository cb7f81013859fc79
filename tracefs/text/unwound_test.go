package text

import (
	"slices"
	"strings"
	"testing"

	"ustack/tracefs"
)

// TestUnwoundStack: what a title says of how a stack was unwound is noted in its frames,
// and in no others.
func TestUnwoundStack(t *testing.T) {
	const head = "            prog-123     [000] .....     1.000001: "
	const frames = " =>  <0000000000001000>\n =>  <0000000000002000>\n"
	const mixed = "cookie=300000008\n =>  <0000000000001000> : 0x5\n =>  <0000000000002000>\n"
	in := head + "<user stack trace> unwound=registers,cfi end=root\n" + frames +
		head + "<user stack trace>\n" + frames +
		head + "<user stack trace> unwound=registers,fp end=copy-too-short\n" + frames +
		head + "<user stack unwind> unwound=registers,cfi end=root\n" + mixed +
		head + "<user stack unwind>\n" + mixed
	b := &tracefs.Batch{Text: []byte(in)}
	if _, err := NewScanner().Scan(b, MoreNever); err != nil {
		t.Fatal(err)
	}
	want := [][2]tracefs.How{{tracefs.ByRegisters, tracefs.ByCFI}, {}, {tracefs.ByRegisters, tracefs.ByFramePointer}, {tracefs.ByRegisters, tracefs.ByCFI}, {}}
	ends := []tracefs.Stop{tracefs.AtRoot, tracefs.NoStop, tracefs.AtCopy, tracefs.AtRoot, tracefs.NoStop}
	if len(b.Records) != len(want) {
		t.Fatalf("%d records, want %d", len(b.Records), len(want))
	}
	for i := range b.Records {
		list, _ := b.StackFrames(&b.Records[i])
		if len(list) != 2 {
			t.Fatalf("stack %d has %d frames", i, len(list))
		}
		form := tracefs.FormPlain
		if b.Records[i].Flags&tracefs.Deferred != 0 {
			if form = tracefs.FormIdentifier; b.Records[i].Value != 0x300000008 {
				t.Errorf("stack %d has cookie %x", i, b.Records[i].Value)
			}
		}
		for k := range list {
			how, stop := list[k].Unwound()
			end := tracefs.NoStop
			if k == 1 {
				end = ends[i]
			}
			if how != want[i][k] || stop != end || list[k].Form != form {
				t.Errorf("stack %d, frame %d: %v, %v, want %v, %v", i, k, how, stop, want[i][k], end)
			}
			form = tracefs.FormPlain // the second one has no identifier
		}
	}
}

// TestNotesOfEarlierBatch: frames in the memory of an earlier batch have nothing of what
// was noted of the frames there.
func TestNotesOfEarlierBatch(t *testing.T) {
	const head = "            prog-123     [000] .....     1.000001: "
	long := strings.Repeat(" =>  <0000000000003000>\n", 8) // for the fast paths
	hashes := strings.Repeat(" =>  <0000000000003000> : 0x1\n", 8)
	noted := head + "<user stack trace> unwound=registers,cfi*9 end=root\n" +
		strings.Repeat(" =>  <0000000000001000> work (inferred) (late) : path=/z build_id={0x1,0x2,0x3,0x4,0x5}\n", 5) + long
	for _, frames := range []string{long, hashes} {
		b := new(tracefs.Batch)
		for _, in := range []string{noted, head + "first: \n" + head + "<user stack trace>\n" + frames + head + "last: " + strings.Repeat(" ", 200) + "\n"} {
			b.Reset()
			b.Text = append(b.Text, in...)
			if _, err := NewScanner().Scan(b, MoreNever); err != nil {
				t.Fatal(err)
			}
		}
		at := slices.IndexFunc(b.Records, func(r tracefs.Record) bool { return r.Kind == tracefs.KindStack })
		list, _ := b.StackFrames(&b.Records[at])
		if len(list) != 8 {
			t.Fatalf("%d frames", len(list))
		}
		for k := range list {
			if f := &list[k]; f.Inferred() || f.Followed() || f.Mark() != tracefs.NoMark {
				t.Errorf("frame %d of %q: %+v", k, frames[:30], *f)
			}
		}
	}
}
