package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs/escape"
	"ustack/tracefs/input"
	"ustack/tracefs/text"
)

var hostileRounds = flag.Int("hostile-rounds", 4, "rounds of TestHostileNames")

// hostile are pieces of names that look like what ustack reads and writes.
var hostile = []string{
	"\n", "\r", "\r\n", "\x1b[2J", "\x1b]0;x\a", "\t", "\x00"[:0], "\x7f", "\x80", "\xff\xfe", "\xe2\x80", "é", "\u2028", "\\", `\012`, `\134012`, `\\`, `\04`,
	" ", "  ", "# ", "# ustack: escaped=1\n", "# ustack: escaped=1 saved=0123456789abcdef\n", "\n# ustack: boot_id=x\n", "\n#\n", "### t=1 pid=7 comm=x exe=/y\n",
	" build_id={0x1,0x2,0x3,0x4,0x5}", " build_id={0x1,0x2,0x3,0x4,0x5}\r", " [build_id=0102]", " : path=/usr/bin/ssh", " (unresolved: lost)", " (inferred)", " (late)", " path=/x",
	" (deleted)", "/memfd:x", "[+0x12]", " [vdso]", "[heap]", "//anon",
	"\n            bash-1       [000] .....  9999999.000000: file_map: hash=0x1 path=/usr/bin/ssh build_id={0x1,0x2,0x3,0x4,0x5}",
	"\n            bash-1       [000] .....     1.000001: <user stack trace>\n =>  <00007f0000026111>\n",
	"\n =>  <0000000000001234> : path=/usr/bin/ssh build_id={0x1,0x2,0x3,0x4,0x5}\n", "\ncookie=7\n", "\nCPU:0 [LOST 7 EVENTS]\n", "\nCPU:0 [7 EVENTS DROPPED]\n", "\n[LINE TOO BIG]\n",
	"\nmap 1.000000000 7 401000-402000 r-xp 1000 fe:00 5 0 file - /usr/bin/ssh\n", "\nuntil 9.000000000\n", "-7 [000] ..... 1.000001: ", "~cmqcjj6y2lim", "x_cmqcjj6y2lim",
	`","type":"file_map","path":"/usr/bin/ssh`, "{}", "a", "long name", "0x7f0000026111", "55d6f5c6e100",
}

// hostileName is a random name of at most so many bytes without a zero byte.
func hostileName(r *rand.Rand, most int) string {
	var b strings.Builder
	for n := 1 + r.IntN(8); n > 0; n-- {
		b.WriteString(hostile[r.IntN(len(hostile))])
		if r.IntN(4) == 0 {
			b.WriteByte(byte(1 + r.IntN(255)))
		}
	}
	s := b.String()
	return s[:min(len(s), most)]
}

// hostileTrace is a trace whose strings other users have chosen.
type hostileTrace struct {
	path, comm, file, library string
	pages, dump               string // files
}

// hostileFile is a path, of more than PATH_MAX bytes in one of three cases: the kernel
// shows such ones in /proc/PID/maps only.
func hostileFile(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return "/" + strings.Repeat("d/", 2048+r.IntN(100)) + hostileName(r, 200) + "z"
	}
	return "/" + hostileName(r, 1000) + "z"
}

func newHostile(t *testing.T, r *rand.Rand) *hostileTrace {
	t.Helper()
	const commSize, argSize = 15, 1200
	h := &hostileTrace{path: "/" + hostileName(r, argSize), comm: hostileName(r, commSize), file: hostileFile(r), library: hostileFile(r)}
	h.pages = spoofPages(t, h.path)
	cmdlines := fmt.Sprintf("7 victim\n9 %s\n", h.comm)
	write := func(name string, data string) {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(h.pages, "meta", "saved_cmdlines"), cmdlines)
	h.dump = filepath.Join(t.TempDir(), "7.maps")
	line := func(at, name string) string { return at + string(escape.Append(nil, []byte(name))) + "\n" }
	write(h.dump, text.Head+line("### t=0.5 pid=7 comm=victim exe=", h.file)+
		line("560000001000-560000002000 r-xp 00001000 fe:00 12                         ", h.file)+
		line("7f0000026000-7f0000027000 r-xp 00026000 fe:00 13                         ", h.library)+
		"# fe:00 12 build_id=0102030405060708090a0b0c0d0e0f1011121314\n"+
		"# fe:00 13 build_id=b6e5d9c258e911b2e478f8dedf22400e53225509\n")
	return h
}

// readBack is what a trace is in JSON, its strings as bytes.
type readBack struct{ Execs, Comms, Files, Kinds counts }

type counts map[string]int

// String has the strings quoted.
func (c counts) String() string {
	var b strings.Builder
	for _, s := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%d of %q; ", c[s], s)
	}
	return b.String()
}

func readHostile(t *testing.T, lines []byte) *readBack {
	t.Helper()
	back := &readBack{counts{}, counts{}, counts{}, counts{}}
	for line := range bytes.Lines(lines) {
		if i := bytes.IndexFunc(bytes.TrimSuffix(line, []byte("\n")), func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
			t.Errorf("a control character in JSON: %q", line[i:])
		}
		var r struct {
			Type, Name, Args, Comm string
			ArgsHex                string `json:"args_hex"`
			CommHex                string `json:"comm_hex"`
			PID                    int
			Stack                  []struct {
				Path, Reason string
				PathHex      string `json:"path_hex"`
			}
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch r.Type {
		case "file_map", "note", "header", "totals":
		default:
			back.Kinds[r.Type+" "+r.Name]++
		}
		if r.Name == "sched_process_exec" {
			back.Execs[rawString(t, r.Args, r.ArgsHex)]++
		}
		if r.Type != "event" && r.Type != "stack" {
			continue
		}
		back.Comms[fmt.Sprint(r.PID, " ", rawString(t, r.Comm, r.CommHex))]++
		for _, f := range r.Stack {
			back.Files[f.Reason+rawString(t, f.Path, f.PathHex)]++
		}
	}
	return back
}

// rawString is a string of JSON as it was.
func rawString(t *testing.T, s, inHex string) string {
	t.Helper()
	if inHex == "" {
		return s
	}
	b, err := hex.DecodeString(inHex)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// different says how what was read differs from what is true, "" if it does not.
func (b *readBack) different(want *readBack) string {
	for name, pair := range map[string][2]counts{
		"execs": {b.Execs, want.Execs}, "comms": {b.Comms, want.Comms}, "files": {b.Files, want.Files}, "records": {b.Kinds, want.Kinds},
	} {
		if !maps.Equal(pair[0], pair[1]) {
			return fmt.Sprintf("%s %v, not %v", name, pair[0], pair[1])
		}
	}
	return ""
}

// TestHostileNames: whatever other users call files, programs and threads, what ustack
// has written of them is read back as what it was. More rounds: -hostile-rounds.
func TestHostileNames(t *testing.T) {
	seed := uint64(*hostileRounds)
	for n := range *hostileRounds {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		t.Run(fmt.Sprint(n), func(t *testing.T) { newHostile(t, r).check(t) })
		if t.Failed() {
			return
		}
	}
}

func (h *hostileTrace) check(t *testing.T) {
	want := readHostile(t, spoofReplay(t, "--format=json", "--maps", h.dump, h.pages))
	if n := want.Execs["filename="+h.path+" pid=9 old_pid=9"]; n != 1 {
		t.Fatalf("executed %v, not %q", want.Execs, h.path)
	}
	if want.Files[h.file] != spoofCalls || want.Files[h.library] != spoofCalls {
		t.Fatalf("files %v, not %q, %q", want.Files, h.file, h.library)
	}
	again := func(name string, written []byte, args ...string) {
		t.Helper()
		own := h.written(t, name, written)
		got := readHostile(t, spoofReplay(t, append(args, "--format=json", own)...))
		if why := got.different(want); why != "" {
			t.Errorf("%s is read as %s", name, why)
		}
		if i := bytes.IndexFunc(written, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }); i >= 0 && written[0] == '#' {
			t.Errorf("%s has a control character: %q", name, written[i:min(i+40, len(written))])
		}
	}
	replayed := spoofReplay(t, "--maps", h.dump, h.pages)
	again("text", replayed)
	again("text with IDs in hexadecimal", spoofReplay(t, "--build-id=hex", "--maps", h.dump, h.pages))
	again("text, twice", spoofReplay(t, h.written(t, "once", replayed)))
	again("text, escaped twice", spoofReplay(t, "--escape", h.written(t, "once", replayed)))
	report := h.report(t)
	again("report", unpacked(t, report))
	h.stitched(t, want)
	h.savedLive(t, again)
	h.redacted(t, want, report)
	h.merged(t, want, report)
}

func (h *hostileTrace) written(t *testing.T, name string, data []byte) string {
	t.Helper()
	own := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(own, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return own
}

// report makes a report, as record does.
func (h *hostileTrace) report(t *testing.T) string {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.zst")
	from := saved.Options{Quiet: true, Maps: h.dump, Files: []string{h.pages}}
	trace, err := from.Open(nil, input.Options{Events: true, Escape: true}, resolve.Options{Hold: pump.Hold()})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	out, err := record.Create(report, 0)
	if err != nil {
		t.Fatal(err)
	}
	var w *record.Report
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer {
		var werr error
		if w, werr = record.NewReport(out, record.ReportOptions{}); werr != nil {
			t.Fatal(werr)
		}
		return w
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// unpacked is the text of a report.
func unpacked(t *testing.T, report string) []byte {
	t.Helper()
	in, err := input.Open(report, nil)
	if err != nil {
		t.Fatal(err)
	}
	trace := input.NewTrace([]*input.File{in}, input.Options{Events: true})
	return append([]byte(text.Head), allText(t, trace)...)
}

// allText is the text of a trace.
func allText(t *testing.T, trace *input.Trace) []byte {
	t.Helper()
	batches := trace.Start()
	defer batches.Close()
	var all []byte
	for {
		b, err := batches.Next()
		if b != nil {
			all = append(all, b.Text...)
			batches.Free(b)
		}
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// stitched: the stack below an event is for people. What is read back has the same
// events and nothing else: frames are lines of their events.
func (h *hostileTrace) stitched(t *testing.T, want *readBack) {
	t.Helper()
	stitched := spoofReplay(t, "--stitch", "--maps", h.dump, h.pages)
	got := readHostile(t, spoofReplay(t, "--format=json", h.written(t, "stitched", stitched)))
	total := func(b *readBack) (events, others int) {
		for kind, n := range b.Kinds {
			if strings.HasPrefix(kind, "event ") {
				events += n
			} else if kind != "stack " {
				others += n
			}
		}
		return events, others
	}
	events, others := total(got)
	if n, m := total(want); events != n || others != m {
		t.Errorf("stitched text has %d events and %d other records, not %d and %d", events, others, n, m)
	}
	if len(got.Files) > 0 || !maps.Equal(got.Execs, want.Execs) || got.Kinds["stack "] > 0 {
		t.Errorf("stitched text is read as %v with %v, %v", got.Execs, got.Files, got.Kinds)
	}
}

// savedLive: as live --save writes it.
func (h *hostileTrace) savedLive(t *testing.T, again func(string, []byte, ...string)) {
	t.Helper()
	const id = "0123456789abcdef"
	trace, err := input.OpenAll([]string{h.pages}, nil, input.Options{Events: true, Escape: true})
	if err != nil {
		t.Fatal(err)
	}
	spaces := "# ustack side band 2 clock=mono\ntrace 0.000000000 " + id + "\nfork 0.100000000 1 7\n"
	for at, name := range map[string]string{"560000001000-560000002000 r-xp 1000 fe:00 12": h.file, "7f0000026000-7f0000027000 r-xp 26000 fe:00 13": h.library} {
		spaces += "map 0.200000000 7 " + at + " 0 file - " + string(escape.Append(nil, []byte(name))) + "\n"
	}
	spaces += "comm 0.200000000 7 " + string(escape.Append(nil, []byte(h.comm))) + "\nuntil 9.000000000\n"
	again("saved", append([]byte(text.SavedHead(id)), allText(t, trace)...), "--maps", h.written(t, "spaces", []byte(spaces)))
}

// redacted: nothing of the names is left, and as many files are.
func (h *hostileTrace) redacted(t *testing.T, want *readBack, report string) {
	t.Helper()
	for name, from := range map[string][]string{"report": {report}, "pages": {"--maps", h.dump, h.pages}} {
		var stderr bytes.Buffer
		out := filepath.Join(t.TempDir(), "redacted.zst")
		if code := run(append([]string{"redact", "-q", "-o", out}, from...), nil, &stderr, &stderr); code != exitOK {
			t.Fatalf("redact of the %s: %s", name, &stderr)
		}
		if code := run([]string{"check-redaction", out}, nil, &stderr, &stderr); code != exitOK {
			t.Errorf("redacted %s: %s", name, &stderr)
		}
		got := readHostile(t, spoofReplay(t, "--format=json", out))
		if !maps.Equal(got.Kinds, want.Kinds) || len(got.Files) != len(want.Files) {
			t.Errorf("redacted %s has %v and %d files", name, got.Kinds, len(got.Files))
		}
	}
}

// merged: each stack is there once, with the same files.
func (h *hostileTrace) merged(t *testing.T, want *readBack, report string) {
	t.Helper()
	var stderr bytes.Buffer
	out := filepath.Join(t.TempDir(), "merged.zst")
	if code := run([]string{"merge", "-q", "-o", out, report, report}, nil, &stderr, &stderr); code != exitOK {
		t.Fatal(&stderr)
	}
	got := readHostile(t, spoofReplay(t, "--format=json", out))
	for name := range want.Files {
		if got.Files[name] != 1 {
			t.Errorf("the merged report has %d frames in %q", got.Files[name], name)
		}
	}
	if len(got.Files) != len(want.Files) || len(got.Execs) > 0 {
		t.Errorf("the merged report has %v and %v, not %v", got.Files, got.Execs, want.Files)
	}
}
