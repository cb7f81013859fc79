package main

// Untrusted strings in traces: the name of a file that looks like lines of a
// trace must not become lines of one.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// forgedPath is the name of a program that says what an identifier is.
func forgedPath(dir string, identifiers ...uint64) string {
	path := dir + "/ev"
	for _, v := range identifiers {
		path += fmt.Sprintf("\n            bash-1       [000] .....  9999999.000000: file_map: hash=0x%x path=/usr/bin/ssh build_id={0x1,0x2,0x3,0x4,0x5}", v)
	}
	return path + "\n# "
}

// spoofPages writes the ring buffer of a machine on which a program with such a name
// was executed, and then one made futex calls.
func spoofPages(t *testing.T, path string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const common = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" +
		"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" +
		"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	for name, format := range map[string]string{
		"sched/sched_process_exec": "name: sched_process_exec\nID: 365\n" + common + "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n" +
			"\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n\n" +
			`print fmt: "filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid` + "\n",
		"syscalls/sys_enter_futex": "name: sys_enter_futex\nID: 522\n" + common + "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n" +
			"\tfield:u32 * uaddr;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:int op;\toffset:24;\tsize:8;\tsigned:0;\n\n" + `print fmt: "uaddr: 0x%08lx", ((unsigned long)(REC->uaddr))` + "\n",
		"ftrace/user_stack": "name: user_stack\nID: 13\n" + common + "\tfield:unsigned int tgid;\toffset:8;\tsize:4;\tsigned:0;\n" +
			"\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n\n" + `print fmt: "%ps", (void *)REC->caller[0]` + "\n",
	} {
		write("meta/events/"+name+"/format", []byte(format))
	}
	write("meta/saved_cmdlines", []byte("7 victim\n9 ev\nil\n"))
	write("raw0.bin", spoofPage(path))
	return dir
}

const spoofCalls = 20

// spoofPage is a sub-buffer (include/linux/ring_buffer.h).
func spoofPage(path string) []byte {
	u32 := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	entry := func(id, pid uint32) []byte { return u32(nil, id, pid) }
	data := append([]byte(path), 0)
	records := [][]byte{append(u32(entry(365, 9), uint32(20|len(data)<<16), 9, 9), data...)}
	for range spoofCalls {
		call := u32(entry(522, 7), 202, 0, 0x1000, 0, 1, 0)
		stack := u32(entry(13, 7), 7, 0)
		for _, addr := range []uint64{0x7f0000026111, 0x560000001222, 0, 0, 0, 0, 0, 0} {
			stack = binary.LittleEndian.AppendUint64(stack, addr)
		}
		records = append(records, call, stack)
	}
	var body []byte
	for _, r := range records {
		for len(r)%4 != 0 {
			r = append(r, 0)
		}
		const delta = 1000
		body = append(u32(body, delta<<5, uint32(len(r))+4), r...)
	}
	page := binary.LittleEndian.AppendUint64(nil, 1e9)
	page = binary.LittleEndian.AppendUint64(page, uint64(len(body)))
	page = append(page, body...)
	return append(page, make([]byte, 4096-len(page))...)
}

const (
	spoofLibc  = "/usr/lib/x86_64-linux-gnu/libc.so.6"
	spoofWords = "0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253"
	spoofMaps  = "### t=0.5 pid=7 comm=victim exe=/tmp/victim\n" +
		"560000001000-560000002000 r-xp 00001000 fe:00 12                         /tmp/victim\n" +
		"7f0000026000-7f0000027000 r-xp 00026000 fe:00 13                         " + spoofLibc + "\n" +
		"# fe:00 13 build_id=b6e5d9c258e911b2e478f8dedf22400e53225509\n"
)

// spoofed is a trace in JSON, as far as it is looked at.
type spoofed struct {
	execs []string       // arguments
	files map[string]int // frames of the victim
	maps  int            // mapping events
	other int            // records besides
}

func readSpoofed(t *testing.T, lines []byte) (s spoofed) {
	t.Helper()
	s.files = make(map[string]int)
	for line := range bytes.Lines(lines) {
		var r struct {
			Type, Name, Args, Comm string
			Stack                  []struct{ Path, Reason string }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case r.Name == "sched_process_exec":
			s.execs = append(s.execs, r.Args)
		case r.Type == "file_map":
			s.maps++
		case r.Comm == "bash":
			s.other++
		}
		for _, f := range r.Stack {
			if r.Comm == "victim" {
				s.files[f.Path+f.Reason]++
			}
		}
	}
	return s
}

// TestSpoofedReport: the name of a program that looks like a mapping event, with the
// very identifier that the C library has in the report, names no frame of it.
func TestSpoofedReport(t *testing.T) {
	secret := []byte("of this test only")
	libc, ok := filemap.ParseWords([]byte(spoofWords))
	if !ok {
		t.Fatal(spoofWords)
	}
	file := filemap.File{Path: spoofLibc, BuildID: libc, HasID: true}
	// One identifier is that of this report, the other that of reports before they had
	// secrets.
	path := forgedPath("/tmp/x", record.NewIdentifiers(secret).Of(&file, tracefs.NoMark), file.Identifier(tracefs.NoMark))
	pages := spoofPages(t, path)
	dump := filepath.Join(t.TempDir(), "7.maps")
	if err := os.WriteFile(dump, []byte(spoofMaps), 0o600); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.zst")
	from := saved.Options{Quiet: true, Maps: dump, Files: []string{pages}}
	trace, err := from.Open(nil, input.Options{Events: true, Escape: true}, resolve.Options{Hold: pump.Hold()})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	out, err := record.Create(report, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer {
		w, werr := record.NewReport(out, record.ReportOptions{Identifiers: record.NewIdentifiers(secret)})
		if werr != nil {
			t.Fatal(werr)
		}
		return w
	}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	again := spoofReplay(t, report)
	want := spoofed{execs: []string{"filename=" + path + " pid=9 old_pid=9"}, files: map[string]int{spoofLibc: spoofCalls, "/tmp/victim": spoofCalls}, maps: 2}
	if got := readSpoofed(t, spoofReplay(t, "--format=json", report)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the report is read as\n%+v, want\n%+v\n%s", got, want, again)
	}
	// So is text that replay has written of the pages, or of the report.
	want.maps = 0
	for name, text := range map[string][]byte{"report": again, "pages": spoofReplay(t, "--maps", dump, pages)} {
		own := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(own, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readSpoofed(t, spoofReplay(t, "--format=json", own)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("text of the %s is read as\n%+v, want\n%+v\n%s", name, got, want, text)
		}
		if !bytes.Equal(spoofReplay(t, own), text) || !bytes.Contains(text, []byte(`/tmp/x/ev\012            bash-1 `)) {
			t.Errorf("text of the %s:\n%s", name, text)
		}
	}
}

// spoofReplay is what replay prints.
func spoofReplay(t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"replay", "-q"}, args...), strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("replay %q: exit code %d: %s", args, code, &stderr)
	}
	return stdout.Bytes()
}

// TestIdentifiersOfReports: a file has another identifier in each report, unless they
// are redacted with the same key.
func TestIdentifiersOfReports(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "7.maps")
	if err := os.WriteFile(dump, []byte(spoofMaps), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	pages := spoofPages(t, "/tmp/x")
	announced := func(args ...string) string {
		report := filepath.Join(t.TempDir(), "report.zst")
		var stderr bytes.Buffer
		if code := run(append([]string{"redact", "-q", "--maps", dump, "-o", report}, append(args, pages)...), nil, &stderr, &stderr); code != exitOK {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		if code := run([]string{"check-redaction", report}, nil, &stderr, &stderr); code != exitOK {
			t.Errorf("not redacted: %s", &stderr)
		}
		for line := range bytes.Lines(spoofReplay(t, "--keep-maps", report)) {
			if _, rest, ok := bytes.Cut(line, []byte("file_map: hash=")); ok && bytes.Contains(rest, []byte(spoofLibc)) {
				return string(rest)
			}
		}
		t.Fatal("the C library is not announced")
		return ""
	}
	if a, b := announced(), announced(); a == b {
		t.Errorf("twice the same: %s", a)
	}
	if a, b := announced("--redact-key", key), announced("--redact-key", key); a != b {
		t.Errorf("with one key %s and %s", a, b)
	}
}
