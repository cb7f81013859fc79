package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs"
)

// mapText is what bpftrace prints for maps and lines of its own, and what ustack makes of
// such text.
const mapText = `Attaching 1 probe...
hello
@a[
    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x1178
    0x7f3578507123
, worker]: 12
@b[7, 
        7f3578507123
        0xd8ec81485355
]: 3
@c[8]:
 =>  <0000000000001178> (late) : path=/opt/labs/wl/exe1 build_id={0xaca784bc,0xd12c6adb,0x3c6bf8de,0x5667f6f4,0x76e1865f}
    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x11cf (unresolved: no-path)
    0x12 (unresolved: no-address-space)

    deadbeef
    bc84a7acdb6a2cd1def86b3cf4f667565f86e17 0x1178
    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x11781178117811781
bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x3
`

// scanMapText scans a text in pieces of a size, and returns the records as words.
func scanMapText(t testing.TB, in string, size int) (list []string) {
	t.Helper()
	s := NewScanner()
	s.Events = true
	var all bytes.Buffer
	rest, given := []byte(nil), 0
	for done := false; !done; {
		n := min(size, len(in)-given)
		rest = append(rest, in[given:given+n]...)
		given += n
		done = given == len(in)
		more := MoreSoon
		if done {
			more = MoreNever
		}
		b := tracefs.Batch{Text: slices.Clone(rest)}
		used, err := s.Scan(&b, more)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		if len(b.Text) != used || b.Lines != lineFeeds(b.Text) {
			t.Fatalf("%d: %d bytes, %d lines in the batch, %d used", size, len(b.Text), b.Lines, used)
		}
		all.Write(b.Text)
		rest = rest[used:]
		list = append(list, mapWords(t, &b)...)
	}
	if all.String() != in {
		t.Fatalf("%d: text of %d bytes became %d", size, len(in), all.Len())
	}
	return list
}

// mapWords says what is in a batch. Records cover its text without gaps once a stack was seen.
func mapWords(t testing.TB, b *tracefs.Batch) (list []string) {
	t.Helper()
	for i := range b.Records {
		r := &b.Records[i]
		if r.Kind == tracefs.KindNote {
			list = append(list, fmt.Sprintf("note %s", b.Raw(r)))
			continue
		}
		if r.Kind != tracefs.KindStack || b.Headed(r) || r.TID != tracefs.NoTID || r.Lo == r.Hi {
			t.Fatalf("%+v", *r)
		}
		word := "stack"
		if r.Flags&tracefs.Counted != 0 {
			word += fmt.Sprintf(" %d times", r.Value)
		}
		for k := r.Lo; k < r.Hi; k++ {
			f := &b.Frames[k]
			if f.Off > f.AddrEnd || f.AddrEnd > f.End || f.Off < r.Off || f.End > r.End {
				t.Fatalf("frame %+v of %+v", *f, *r)
			}
			switch f.Form {
			case tracefs.FormBuildID:
				word += fmt.Sprintf(" %x+%#x", MapBuildID(b.Text, f), f.Addr)
			default:
				word += fmt.Sprintf(" %d:%#x", f.Form, f.Address(b.Text))
			}
		}
		list = append(list, word)
	}
	return list
}

// TestMapStacks: the stacks of a text of BPF maps are found, however it comes, and nothing
// else is.
func TestMapStacks(t *testing.T) {
	const exe = "bc84a7acdb6a2cd1def86b3cf4f667565f86e176"
	plain, resolved, unresolved := tracefs.FormPlain, tracefs.FormResolved, tracefs.FormUnresolved
	want := []string{
		"note Attaching 1 probe...\n", "note hello\n", "note @a[\n",
		fmt.Sprintf("stack 12 times %s+0x1178 %d:0x7f3578507123", exe, plain),
		"note , worker]: 12\n", "note @b[7, \n",
		fmt.Sprintf("stack 3 times %d:0x7f3578507123 %[1]d:0xd8ec81485355", plain),
		"note ]: 3\n", "note @c[8]:\n",
		fmt.Sprintf("stack %d:0x1178 %s+0x11cf %d:0x12", resolved, exe, unresolved),
		"note \n", "note     deadbeef\n",
		"note     " + exe[:39] + " 0x1178\n", "note     " + exe + " 0x11781178117811781\n",
		fmt.Sprintf("stack %s+0x3", exe),
	}
	for _, size := range []int{len(mapText), 4096, 1000, 333, 77, 1} {
		got := scanMapText(t, mapText, size)
		if size < 100 { // what stood before the first stack was of no trace yet: notes of another cut
			got = got[max(len(got)-(len(want)-3), 0):]
			if !slices.Equal(got, want[3:]) {
				t.Errorf("pieces of %d:\n%q\nwant\n%q", size, got, want[3:])
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("pieces of %d:\n%q\nwant\n%q", size, got, want)
		}
	}
}

// TestNoMapStacks: what looks like a stack of a BPF map after a record is text of the record.
func TestNoMapStacks(t *testing.T) {
	in := "            bash-1977  [000] .....  1234.567890: tracing_mark_write: x\n" + mapText
	s := NewScanner()
	s.Events = true
	b := tracefs.Batch{Text: []byte(in)}
	if _, err := s.Scan(&b, MoreNever); err != nil || s.maps != nil || len(b.Frames) > 0 {
		t.Errorf("%v, %d frames", err, len(b.Frames))
	}
	torn := " =>  <0000000000001178> : path=/opt/labs/wl/exe1\n"
	if HasMapStacks([]byte(torn + torn)) {
		t.Error("the rest of a stack begins a text of BPF maps")
	}
}

// TestAppendMapStack: what is written is read back.
func TestAppendMapStack(t *testing.T) {
	frames := []MapFrame{{BuildID: [20]byte{1, 0xff}, Value: 1<<64 - 1}, {Value: 0, IsAddress: true}}
	id := "01ff" + strings.Repeat("0", 36)
	for counted, want := range map[bool]string{true: "stack 5 times ", false: "stack "} {
		got := scanMapText(t, string(AppendMapStack(nil, 9, frames, 5, counted)), 1000)
		want += fmt.Sprintf("%s+0xffffffffffffffff %d:0x0", id, tracefs.FormPlain)
		if len(got) < 2 || got[1] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLongMapStack: a stack that does not end is cut into pieces, none of which is lost.
func TestLongMapStack(t *testing.T) {
	const frame = "    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x1178\n"
	const frames = 2*maxMapFrames + 5
	for more, want := range map[More]int{MoreNever: frames, MoreLater: 2 * maxMapFrames} {
		s := NewScanner()
		in := "@[\n" + strings.Repeat(frame, frames)
		b := tracefs.Batch{Text: []byte(in)}
		if used, err := s.Scan(&b, more); err != nil || len(b.Frames) != want || used != len(in)-(frames-want)*len(frame) {
			t.Fatalf("%v, %d frames of %d", err, len(b.Frames), want)
		}
		for i := range b.Records {
			if continued := b.Records[i].Flags&tracefs.Continued != 0; continued != (i > 0) {
				t.Errorf("piece %d: %+v", i, b.Records[i])
			}
		}
	}
}

// FuzzMapStacks: no text is lost, and it does not matter in which pieces it comes once the
// scanner knows what it is.
func FuzzMapStacks(f *testing.F) {
	f.Add(mapText, uint8(10))
	f.Add("@[1]:\n    0x1\n    0x2 (unresolved: x)\n =>  <0000000000000001> : path=/x\n", uint8(1))
	f.Add("@[\n\t1234567812345678\n"+strings.Repeat("0", 40)+" 0x0\n, [a]: 1]: 2]: 3", uint8(3))
	f.Fuzz(func(t *testing.T, in string, size uint8) {
		scan := func(size int) (list []string) {
			s := NewScanner()
			s.Events = true
			s.UseMapStacks()
			rest := []byte(nil)
			for given := 0; ; {
				n := min(size, len(in)-given)
				rest = append(rest, in[given:given+n]...)
				given += n
				more := MoreSoon
				if given == len(in) {
					more = MoreNever
				}
				b := tracefs.Batch{Text: slices.Clone(rest)}
				used, err := s.Scan(&b, more)
				if err != nil {
					t.Fatal(err)
				}
				at := uint32(0)
				for i := range b.Records {
					if b.Records[i].Off != at {
						t.Fatalf("a record at %d, the one before ends at %d", b.Records[i].Off, at)
					}
					at = b.Records[i].End
				}
				if int(at) != used {
					t.Fatalf("records until %d of %d", at, used)
				}
				list = append(list, mapWords(t, &b)...)
				if rest = rest[used:]; given == len(in) {
					return list
				}
			}
		}
		whole, parts := scan(len(in)+1), scan(max(int(size), 1))
		if !slices.Equal(whole, parts) {
			t.Fatalf("%q\nin pieces of %d %q", whole, size, parts)
		}
	})
}

// TestMapStacksAhead: what comes first decides whether a text is of BPF maps or of an
// ftrace, in whatever pieces it comes.
func TestMapStacksAhead(t *testing.T) {
	const (
		header = "            deep-82      [002] .....     4.077839: sys_futex(uaddr: 0x1)\n"
		stack  = "    bc84a7acdb6a2cd1def86b3cf4f667565f86e176 0x1178\n"
		arrow  = " =>  <00000000000011f4> : 349 : 254:0\n"
	)
	for _, test := range []struct {
		text string
		maps bool
	}{
		{stack + header, true},
		{header + stack, false},
		{"@[\n" + arrow + header, true},
		{"a,\n" + arrow + header, false},
		{arrow + "@[\n" + header + arrow, false},
	} {
		for size := 1; size <= len(test.text); size++ {
			s := plainScanner()
			var pieces [][]byte
			for text := []byte(test.text); len(text) > 0; text = text[min(size, len(text)):] {
				pieces = append(pieces, text[:min(size, len(text))])
			}
			scanPieces(t, s, pieces...)
			if maps := s.maps != nil; maps != test.maps {
				t.Errorf("%q in pieces of %d: of maps %v, want %v", test.text, size, maps, test.maps)
			}
		}
	}
}
