package text

import (
	"slices"
	"testing"

	"ustack/tracefs"
)

func unwoundFrames(addrs ...uint64) []tracefs.Frame {
	var list []tracefs.Frame
	for i, a := range addrs {
		f := tracefs.Frame{Addr: a, HasAddr: true, Form: tracefs.FormPlain}
		how, stop := tracefs.ByCFI, tracefs.NoStop
		if i == 0 {
			how = tracefs.ByRegisters
		}
		if i == len(addrs)-1 {
			stop = tracefs.AtRoot
		}
		f.SetUnwound(how, stop)
		list = append(list, f)
	}
	return list
}

func TestUnwoundWords(t *testing.T) {
	frames := unwoundFrames(1, 2, 3)
	text := AppendUnwound(nil, frames)
	if want := " unwound=registers,cfi*2 end=root"; string(text) != want {
		t.Fatalf("got %q, want %q", text, want)
	}
	read := []tracefs.Frame{{Form: tracefs.FormPlain}, {Form: tracefs.FormPlain}, {Form: tracefs.FormPlain}}
	if !ParseUnwound(text, read) {
		t.Fatal("not understood")
	}
	for i := range read {
		how, stop := read[i].Unwound()
		if wantHow, wantStop := frames[i].Unwound(); how != wantHow || stop != wantStop {
			t.Errorf("frame %d: %v %v, want %v %v", i, how, stop, wantHow, wantStop)
		}
	}
	for _, bad := range []string{"", " unwound=", " unwound=x", " unwound=cfi*0", " unwound=cfi*-1", " unwound=cfi end=", " unwound=cfi end=x", "unwound=cfi"} {
		if ParseUnwound([]byte(bad), read) {
			t.Errorf("%q is understood", bad)
		}
	}
	resolved := []tracefs.Frame{{Form: tracefs.FormIdentifier, ID: tracefs.HashIdentifier(5)}}
	if ParseUnwound([]byte(" unwound=cfi*9999999999"), resolved); resolved[0].ID != tracefs.HashIdentifier(5) {
		t.Error("an identifier is gone")
	}
}

// stockBatch has an event, a stock stack, an event and another stack.
func stockBatch() *tracefs.Batch {
	const title = "x-1 [000] 1.0: " + titleStock + "\n"
	b := &tracefs.Batch{}
	stack := func(addrs ...uint64) {
		r := tracefs.Record{Kind: tracefs.KindStack, Off: uint32(len(b.Text)), Body: uint32(len(b.Text) + len("x-1 [000] 1.0: ")), Lo: uint32(len(b.Frames))}
		b.Text = append(b.Text, title...)
		for _, a := range addrs {
			f := tracefs.Frame{Addr: a, HasAddr: true, Form: tracefs.FormPlain, Off: uint32(len(b.Text))}
			b.Text = tracefs.AppendAddrText(b.Text, a)
			f.AddrEnd, f.End = uint32(len(b.Text)), uint32(len(b.Text))
			b.Text = append(b.Text, '\n')
			b.Frames = append(b.Frames, f)
		}
		r.Hi, r.End = uint32(len(b.Frames)), uint32(len(b.Text))
		b.Records = append(b.Records, r)
	}
	event := func() {
		b.Text = append(b.Text, "skipped\n"...)
		r := tracefs.Record{Kind: tracefs.KindEvent, Off: uint32(len(b.Text)), Body: uint32(len(b.Text))}
		b.Text = append(b.Text, "event\n"...)
		r.End = uint32(len(b.Text))
		b.Records = append(b.Records, r)
	}
	event()
	stack(1, 2)
	event()
	stack(7)
	event()
	b.Lines = 14
	return b
}

func TestRestack(t *testing.T) {
	for _, which := range [][]int{{}, {1}, {3}, {1, 3}} {
		b := stockBatch()
		var list []Unwound
		for _, n := range which {
			list = append(list, Unwound{Record: n, Frames: unwoundFrames(0x10, 0x20, 0x30, uint64(n))})
		}
		was := b.Lines - int64(countLines(b.Text))
		Restack(b, list)
		if got := b.Lines - int64(countLines(b.Text)); got != was {
			t.Errorf("%v: lines are counted wrong by %d", which, got-was)
		}
		for i := range b.Records {
			r := &b.Records[i]
			if r.Kind == tracefs.KindEvent {
				if got := string(b.Raw(r)); got != "event\n" {
					t.Errorf("%v: event %d is %q", which, i, got)
				}
				continue
			}
			frames, text := b.StackFrames(r)
			want := []uint64{1, 2}
			if i == 3 {
				want = []uint64{7}
			}
			if slices.Contains(which, i) {
				want = []uint64{0x10, 0x20, 0x30, uint64(i)}
				if how, stop := frames[3].Unwound(); how != tracefs.ByCFI || stop != tracefs.AtRoot {
					t.Errorf("%v: the last frame of %d is %v, %v", which, i, how, stop)
				}
			}
			var got []uint64
			for k := range frames {
				f := &frames[k]
				got = append(got, tracefs.ParseAddrText(text[f.Off:f.AddrEnd]))
				if f.End != f.AddrEnd || text[f.End] != '\n' {
					t.Errorf("%v: frame %d of %d is %q", which, k, i, text[f.Off:f.End+1])
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: stack %d has %x, want %x", which, i, got, want)
			}
			if last := b.Text[r.End-1]; last != '\n' || b.Text[r.Off] != 'x' {
				t.Errorf("%v: stack %d is %q", which, i, b.Raw(r))
			}
		}
	}
}

func countLines(text []byte) (n int) {
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	return n
}

// TestParseUnwoundCut: a stack whose last frames are missing does not end where it did.
func TestParseUnwoundCut(t *testing.T) {
	for n, want := range map[int]tracefs.Stop{1: tracefs.NoStop, 2: tracefs.NoStop, 3: tracefs.AtRoot, 4: tracefs.NoStop} {
		frames := make([]tracefs.Frame, n)
		if !ParseUnwound([]byte(" unwound=registers,cfi*2 end=root"), frames) {
			t.Fatal("it is refused")
		}
		if _, stop := frames[n-1].Unwound(); stop != want {
			t.Errorf("of %d frames, the last one ends the stack with %q, not %q", n, stop, want)
		}
	}
}

// TestUnwoundRead: what is read is noted in the frames that the kernel gave, or an
// earlier run in its place, and not in those that were put between.
func TestUnwoundRead(t *testing.T) {
	frames := []tracefs.Frame{{Form: tracefs.FormIdentifier}, {Form: tracefs.FormResolved}, {Form: tracefs.FormResolved}}
	frames[1].SetInferred(true)
	if !ParseUnwound([]byte(" unwound=registers,signal end=copy-too-short"), frames) {
		t.Fatal("not understood")
	}
	if frames[0].Interrupted() || !frames[0].Followed() || frames[1].Followed() || !frames[2].Interrupted() {
		t.Errorf("got %+v", frames)
	}
}

// TestRestackDeferred: a deferred stack keeps its cookie, and the kernel's own frames their
// identifiers; one without text counts the lines that it would have.
func TestRestackDeferred(t *testing.T) {
	const head, stack, rest = "x-1 [000] 1.0: ", "<user stack unwind>\ncookie=300000008\n =>  <0000000000000001> : 0x5\n =>  <0000000000000007> : 0x6\n", "after\n"
	frames := unwoundFrames(1, 0x2000, 7)
	frames[0].Form, frames[0].ID = tracefs.FormIdentifier, tracefs.HashIdentifier(5)
	frames[2].Form, frames[2].ID = tracefs.FormIdentifier, tracefs.InodeIdentifier(77, 254, 3)
	for _, noText := range []bool{false, true} {
		text := head + stack + rest
		r := tracefs.Record{Kind: tracefs.KindStack, Flags: tracefs.Deferred, Value: 0x300000008, Body: uint32(len(head)), End: uint32(len(head + stack)), Hi: 2}
		want := head + "<user stack unwind> unwound=registers,cfi*2 end=root\ncookie=300000008\n =>  <0000000000000001> : 0x5\n" +
			" =>  <0000000000002000>\n =>  <0000000000000007> : 77 : 254:3\n" + rest
		if noText {
			text, want = rest, rest
			r.Flags, r.Body, r.End = r.Flags|tracefs.NoText, 0, 0
		}
		b := &tracefs.Batch{Text: []byte(text), Frames: make([]tracefs.Frame, 2), Records: []tracefs.Record{r}, Lines: 5}
		Restack(b, []Unwound{{0, slices.Clone(frames)}})
		if string(b.Text) != want || b.Lines != 6 {
			t.Errorf("%d lines: %q, want %q", b.Lines, b.Text, want)
		}
		got, text2 := b.StackFrames(&b.Records[0])
		for i := range got {
			f := &got[i]
			how, stop := f.Unwound()
			wantHow, wantStop := frames[i].Unwound()
			if f.Form != frames[i].Form || f.ID != frames[i].ID || f.Addr != frames[i].Addr || how != wantHow || stop != wantStop {
				t.Errorf("frame %d: %+v, want %+v", i, *f, frames[i])
			}
			if !noText && (tracefs.ParseAddrText(text2[f.Off:f.AddrEnd]) != f.Addr || text2[f.End] != '\n') {
				t.Errorf("frame %d is %q", i, text2[f.Off:f.End])
			}
		}
	}
}

// TestRestackMappingEvent: the path of a mapping event stays what it was when the memory of
// its batch is another one's.
func TestRestackMappingEvent(t *testing.T) {
	const line = "x-1 [000] 1.0: file_map: hash=0x5 path=/lib/a.so build_id={0x1,0x2,0x3,0x4,0x5}\n"
	b := stockBatch()
	r := tracefs.Record{Kind: tracefs.KindMappingEvent, Off: uint32(len(b.Text)), Body: uint32(len(b.Text) + len("x-1 [000] 1.0: "))}
	b.Text = append(b.Text, line...)
	r.End = uint32(len(b.Text))
	b.AddMappingEvent(&r, ParseMappingEvent(b.Text[r.Body:]))
	b.Records = append(b.Records, r)
	var k Restacker
	k.Restack(b, []Unwound{{1, unwoundFrames(0x10)}})
	other := stockBatch()
	for range 3 { // its text goes where that of the first one was
		k.Restack(other, []Unwound{{1, unwoundFrames(0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90)}})
	}
	e := b.MappingEvent(&b.Records[len(b.Records)-1])
	if string(e.Path) != "/lib/a.so" || string(e.BuildID) != "0x1,0x2,0x3,0x4,0x5" {
		t.Errorf("the file is %q, build ID %q", e.Path, e.BuildID)
	}
}
