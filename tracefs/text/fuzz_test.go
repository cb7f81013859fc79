package text

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// hardPlaces are places in the captures that are hard to read: glued records,
// paths and comms with line feeds, forged frames, losses, every layout.
var hardPlaces = []struct{ capture, around string }{
	{"hash/edge", "=>  <00000000000011f4>            deep-"},
	{"hash/edge", "path=/opt/new\n"},
	{"hash/edge", "path=/opt/evil"},
	{"hash/edge2", "tracing_mark_write: <user stack unwind>"},
	{"hash/lost", "[LOST"},
	{"hash/lost_raw", "buffer started"},
	{"hash/tgid", "(-------)"},
	{"hash/noirq", "<user stack unwind>"},
	{"hash/tsc", "<user stack unwind>"},
	{"hash/counter", "<user stack unwind>"},
	{"hash/kstack", "<stack trace>"},
	{"inode/edge", "inode_cache"},
	{"inode/subbuf_raw", "=>             deep-"},
	{"stock/symuserobj", "[+0x"},
	{"stock/edge2", "tracing_mark_write"},
}

// FuzzScanner: how a text comes in changes nothing. One Scan of all of it has
// the same records as many Scans of pieces, and both give back every byte.
func FuzzScanner(f *testing.F) {
	for i, p := range hardPlaces {
		f.Add(window(f, p.capture, p.around, 1500), []byte{byte(40 + 10*i), 3, 200}, []byte(nil), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, text string, lengths, edits []byte, events bool) {
		text = edited(text, edits)
		for range 2 {
			whole, pieces := NewScanner(), NewScanner()
			whole.Events, pieces.Events = events, events
			if len(lengths)%2 == 1 {
				whole.UseEscapes()
				pieces.UseEscapes()
			}
			want := scanPieces(t, whole, []byte(text))
			if want.err == nil && want.text != text {
				t.Fatalf("%d of %d bytes came out", len(want.text), len(text))
			}
			same(t, scanPieces(t, pieces, cut(text, lengths)...), want)
			lengths = append(lengths, 7)
		}
	})
}

// FuzzFastAgainstSlow: the fast path and the recognition of stacks seen before
// take what they take exactly as the slow path does. The text comes several
// times over, for stacks to come again.
func FuzzFastAgainstSlow(f *testing.F) {
	for i, p := range hardPlaces {
		f.Add(window(f, p.capture, p.around, 1500), []byte(nil), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, text string, edits []byte, events bool) {
		fastAgainstSlow(t, strings.Repeat(edited(text, edits), 4), events)
	})
}

func fastAgainstSlow(t *testing.T, text string, events bool) {
	t.Helper()
	for _, escaped := range []bool{false, true} {
		slow, fast, shaped := slowScanner(), plainScanner(), templateScanner()
		slow.Events, fast.Events, shaped.Events = events, events, events
		if escaped {
			slow.UseEscapes()
			fast.UseEscapes()
			shaped.UseEscapes()
		}
		want := scanPieces(t, slow, []byte(text))
		same(t, scanPieces(t, fast, []byte(text)), want)
		same(t, scanPieces(t, shaped, []byte(text)), want)
	}
}

// TestFastAgainstSlow is the fuzz test with edits of its own making, always
// the same: bytes that a mutator changes blindly seldom leave a text of a
// trace that is nearly right.
func TestFastAgainstSlow(t *testing.T) {
	runs := 3000
	if capturetest.Brief() {
		runs = 300
	}
	for i := range runs {
		text, edits := hostile(t, i)
		fastAgainstSlow(t, strings.Repeat(edited(text, edits), 4), i%2 == 0)
		if t.Failed() {
			t.Fatalf("run %d", i)
		}
	}
}

// TestPiecesOfHostileText is FuzzScanner with such edits.
func TestPiecesOfHostileText(t *testing.T) {
	runs := 1500
	if capturetest.Brief() {
		runs = 150
	}
	for i := range runs {
		text, edits := hostile(t, i)
		text = edited(text, edits)
		same(t, scanPieces(t, templateScanner(), cut(text, edits)...), scanPieces(t, plainScanner(), []byte(text)))
	}
}

// hostile is a hard place and some random edits.
func hostile(t *testing.T, seed int) (text string, edits []byte) {
	p := hardPlaces[seed%len(hardPlaces)]
	key := p.capture + p.around
	if windows[key] == "" {
		windows[key] = window(t, p.capture, p.around, 1500)
	}
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	edits = make([]byte, 4*(1+r.IntN(6)))
	for i := range edits {
		edits[i] = byte(r.Uint32())
	}
	return windows[key], edits
}

var windows = map[string]string{} // captures take long to decompress

// fragments are what edits put into a text: pieces of its grammar, and bytes
// that have no place in it.
var fragments = []string{
	"\n", " ", "-", "0", "9", "f", "x", ":", ".", "[", "]", "<", ">", "(", ")", "\"", "\xff", "\x00", "=", ",",
	"cookie=", " => ", " =>  <", "<user stack unwind>\n", "CPU:0 [LOST 3 EVENTS]\n", "[LINE TOO BIG]\n",
	"            deep-1913    [000] .....    43.495981: ", "           labwl-7777777 [001] d..2.    43.495981: ",
	"file_map: hash=0x1 path=/a\n", " : 0x1", " : 349 : 254:0", " build_id={0x1}", " =>  <0000000000001234> : 0x335e5524\n",
	"    43.495981: ", " 1.000000: ", "cookie=300000004\n", "123456", "[000] ", `\012`, `\`, `\134012`, "\t", "\x1b",
	" : path=/x", " (unresolved: truncated)\n", " build_id={0x1,0x2,0x3,0x4,0x5}\n",
}

// edited applies edits of four bytes each: where (two), which fragment, and
// how.
func edited(text string, edits []byte) string {
	for ; len(edits) >= 4 && len(text) > 0; edits = edits[4:] {
		at := (int(edits[0])<<8 | int(edits[1])) % len(text)
		fragment, drop := fragments[int(edits[2])%len(fragments)], 0
		switch edits[3] % 4 {
		case 0: // in the place of as much text
			drop = len(fragment)
		case 1: // between
		case 2: // in the place of a byte
			drop = 1
		case 3: // nothing, in the place of some text
			drop, fragment = 1+int(edits[3])/4, ""
		}
		text = text[:at] + fragment + text[min(at+drop, len(text)):]
	}
	return text
}

// TestEveryCut cuts real text at every byte, so that each Scan ends once in
// every place of every kind of line.
func TestEveryCut(t *testing.T) {
	size := 1500
	if testing.Short() {
		size = 500
	}
	for _, p := range hardPlaces {
		everyCut(t, window(t, p.capture, p.around, size))
	}
	if capturetest.Brief() {
		return
	}
	for text := window(t, "hash/edge", "path=/opt/evil", 20<<10); len(text) > 0; {
		n := recordsIn(t, text, 1500)
		everyCut(t, text[:n])
		text = text[n:]
	}
}

// recordsIn is how long the records at the beginning of text are, as many as
// have size bytes.
func recordsIn(t *testing.T, text string, size int) int {
	t.Helper()
	n := 0
	for _, v := range scanPieces(t, plainScanner(), []byte(text)).records {
		if n += len(v.Text); n >= size && strings.HasSuffix(v.Text, "\n") {
			break
		}
	}
	return n
}

func everyCut(t *testing.T, text string) {
	t.Helper()
	want := scanPieces(t, plainScanner(), []byte(text))
	for i := range len(text) {
		same(t, scanPieces(t, plainScanner(), []byte(text[:i]), []byte(text[i:])), want)
		if t.Failed() {
			t.Fatalf("cut at %d of %q", i, text)
		}
	}
}

// TestEveryPause breaks real text off after every line, as a pause of a pipe
// does: what comes after the pause goes on with the record that was open.
func TestEveryPause(t *testing.T) {
	for _, c := range []string{"hash/pipe_default", "inode/pipe_default", "stock/symuserobj"} {
		text := window(t, c, "<user stack ", 6000)
		want := scanPieces(t, plainScanner(), []byte(text))
		for i := range len(text) {
			if text[i] != '\n' {
				continue
			}
			s := plainScanner()
			var got scanned
			rest := got.scan(t, s, []byte(text[:i+1]), MoreLater)
			if len(rest) > 0 && !strings.Contains(string(rest), "_cache: ") {
				t.Fatalf("%s: %q was held back in a pause", c, rest)
			}
			got.scan(t, s, append(rest, text[i+1:]...), MoreNever)
			got.records = joined(got.records)
			same(t, got, want)
		}
	}
}

// TestPauseAfterLoss: what a pause breaks off is counted once.
func TestPauseAfterLoss(t *testing.T) {
	for _, line := range []string{
		"CPU:1 [LOST 3 EVENTS]\n", "CPU:1 [LOST EVENTS]\n", "##### CPU 1 buffer started ####\n", "[LINE TOO BIG]\n", "# a note\n",
		columnsLine("cat", 7, "[000] .....     1.000001: cookie=3\n"),
		columnsLine("cat", 7, "[000] .....     1.000001: ev: x\n"),
		columnsLine("cat", 7, "[000] .....     1.000001: file_map: hash=0x1 path=/a build_id={0x1,0x2,0x3,0x4,0x5}\n"),
	} {
		s := plainScanner()
		var got scanned
		rest := got.scan(t, s, []byte(line), MoreLater)
		got.scan(t, s, append(rest, columnsLine("cat", 7, "[000] .....     1.000002: ev: y\n")...), MoreNever)
		if len(got.records) != 2 {
			var all []string
			for _, v := range got.records {
				all = append(all, outline(v))
			}
			t.Errorf("%q and an event, with a pause between, are %q", line, all)
		}
	}
}

// joined puts the pieces of records that were broken off together again.
func joined(list []view) []view {
	var out []view
	for _, v := range list {
		if v.Flags&tracefs.Continued == 0 {
			out = append(out, v)
			continue
		}
		last := &out[len(out)-1]
		last.Text += v.Text
		last.Body += v.Text
		last.Frames = append(last.Frames, v.Frames...)
		if v.Kind == tracefs.KindStack {
			last.Value = v.Value
		}
	}
	return out
}

// FuzzMappingEvent: whatever stands in a mapping event, its parts are pieces
// of it in order, and the path is one a frame may carry.
func FuzzMappingEvent(f *testing.F) {
	for _, c := range mappingEventTests {
		f.Add(c.body)
	}
	f.Add(" path=/opt/x build_id={non}\nfile_map: hash=0x1 path=/opt/x build_id={non}\n")
	for _, p := range hardPlaces {
		for line := range strings.Lines(window(f, p.capture, p.around, 3000)) {
			if _, body, ok := strings.Cut(line, "file_map: "); ok {
				f.Add("file_map: " + body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		a := parseMappingEvent([]byte(body), mappingEventForm{whole: strings.HasSuffix(body, "\n")})
		if a.Bad != "" {
			if a.Path != nil || a.BuildID != nil || !a.ID.IsZero() {
				t.Fatalf("%q: unusable (%s), and yet %+v", body, a.Bad, a)
			}
			return
		}
		if a.ID.IsZero() || len(a.Path) == 0 || a.Path[0] == '(' {
			t.Fatalf("%q: %+v", body, a)
		}
		_, fields, named := strings.Cut(body, ":")
		if !named {
			fields = body
		}
		rest := []byte(fields) // what stands for the event's name may be anything
		for _, part := range [][]byte{[]byte(" path="), a.Path, a.BuildID, []byte("\n")} {
			at := bytes.Index(rest, part)
			if at < 0 {
				t.Fatalf("%q: %q is not after the part before it in %+v", body, part, a)
			}
			rest = rest[at+len(part):]
		}
		if len(rest) > 0 {
			t.Fatalf("%q: %q is left over", body, rest)
		}
	})
}
