package render

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// fragments are pieces of the grammar of a trace, and bytes that have no place
// in it.
var fragments = []string{
	"\n", " ", "-", "0", "f", "x", ":", ".", "[", "]", "<", ">", "\"", "\\", "\xff", "\x00", "=", ",", "}",
	"cookie=", " => ", " =>  <", "<user stack unwind>\n", "CPU:0 [LOST 3 EVENTS]\n", "[LINE TOO BIG]\n",
	"            deep-1913    [000] .....    43.495981: ", "file_map: hash=0x1 path=/a\n", " : 0x1", " : 349 : 254:0",
	" build_id={0x1,0x2,0x3,0x4,0x5}", " =>  <0000000000001234> : 0x335e5524\n", "    43.495981: ",
	"cookie=300000004\n", "[000] ", " (unresolved: lost)", " : path=/x", "path=",
}

// TestHostileText: real text with pieces of its grammar in wrong places. What
// comes out of a replay stays the same in another one, and JSON is JSON.
func TestHostileText(t *testing.T) {
	runs := 400
	if testing.Short() {
		runs = 100
	}
	texts := windows(t)
	for i := range runs {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		in := texts[i%len(texts)]
		for range 1 + r.IntN(6) {
			in = misplace(r, in)
		}
		// A whole record at the end: half a line may be anything.
		in = strings.TrimRight(in, "\n") + "\n" + line("last", 1, "99999.000000", "ev: x")
		for _, style := range []BuildIDStyle{KernelWords, HexID, NoID} {
			opt := options{text: TextOptions{BuildID: style}}
			once := replayed(t, opt, in)
			if headerInPath.MatchString(once) {
				continue
			}
			if again := replayed(t, opt, once); again != once {
				t.Fatalf("run %d, style %d: %s", i, style, difference(again, once))
			}
		}
		jsonLines(t, replayed(t, options{json: true}, in))
	}
}

// headerInPath is a name with the header of a record in it: in a frame, that reads
// like a record that follows a cut one.
var headerInPath = regexp.MustCompile(` : path=[^\n]*-\d+ [^\n]*\[\d{3}\] `)

// misplace puts a fragment somewhere: between, in the place of as much text,
// or instead of it; or takes some text away.
func misplace(r *rand.Rand, text string) string {
	at := r.IntN(len(text))
	fragment, drop := fragments[r.IntN(len(fragments))], 0
	switch r.IntN(4) {
	case 0:
		drop = len(fragment)
	case 1:
		drop = 1
	case 2:
		drop, fragment = 1+r.IntN(60), ""
	}
	return text[:at] + fragment + text[min(at+drop, len(text)):]
}

// windows are whole lines of a few captures, around a stack.
func windows(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, name := range []string{"hash/edge", "hash/lost", "hash/tgid", "hash/noirq", "hash/tsc", "inode/edge", "inode/edge2", "stock/symuserobj", "stock/kstack"} {
		raw := capturetest.Read(t, filepath.Join("../testdata/captures", name, "trace.txt.zst"))
		text := string(raw[len(raw)/2:])
		text = text[strings.Index(text, "<user stack"):]
		text = text[strings.IndexByte(text, '\n')+1:]
		for text[0] == ' ' && text[1] == '=' || text[0] == 'c' { // the rest of the stack
			text = text[strings.IndexByte(text, '\n')+1:]
		}
		list = append(list, text[:3000])
	}
	return list
}

// difference shows where two texts part.
func difference(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	from := strings.LastIndexByte(want[:n], '\n') + 1
	show := func(s string) string {
		b, _ := json.Marshal(s[from:min(from+300, len(s))])
		return string(b)
	}
	return "got " + show(got) + "\nwant " + show(want)
}
