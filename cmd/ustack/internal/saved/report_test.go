package saved

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
	"ustack/tracefs/pagefile"
)

// disk is a file of a capture.
type disk struct{ *os.File }

// unnamed knows no names.
type unnamed struct{}

func (unnamed) Comm(int32, uint64) (string, uint64, bool) { return "", 1<<64 - 1, false }

// pagesOf makes a report of pages of a capture of the stock kernel, with a log.
func pagesOf(t *testing.T, log string) (name string) {
	t.Helper()
	dir := capturetest.Unpack(t, "../../../../testdata/captures/stock/static_raw/raw.tar.zst")
	meta := os.DirFS(filepath.Join(dir, "meta"))
	files, err := binary.CollectMeta(meta, meta, "*/*")
	check(t, err)
	for i := range files {
		if files[i].Name == "trace_clock" {
			files[i].Text = []byte("local [mono]\n")
		}
	}
	name = filepath.Join(t.TempDir(), "report.pages")
	f, err := os.Create(name)
	check(t, err)
	defer f.Close()
	c := pagefile.NewCapture()
	check(t, c.Begin(files, unnamed{}, nil))
	check(t, c.Start(disk{f}, 0, []byte("# ustack: version=1\n# ustack: trace="+c.ID()+"\n")))
	if log != "" {
		fmt.Fprintf(c.Log(), "# ustack side band 2 clock=mono\ntrace 0.000000000 %s\n%s", c.ID(), log)
	}
	raws, err := filepath.Glob(filepath.Join(dir, "raw*.bin"))
	check(t, err)
	for _, raw := range raws {
		var cpu int32
		_, err := fmt.Sscanf(filepath.Base(raw), "raw%d.bin", &cpu)
		check(t, err)
		data, err := os.ReadFile(raw)
		check(t, err)
		for size := 4096; len(data) >= size; data = data[size:] {
			c.Add(cpu, data[:size])
			c.Confirm()
			if !c.Room(cpu) {
				check(t, c.Flush())
			}
		}
	}
	check(t, c.Finish(func(pagefile.Counts) []byte { return []byte("# ustack: end\n") }))
	return name
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replayed is the text of a trace, and what was printed besides.
func replayed(t *testing.T, files ...string) (text, notes string) {
	t.Helper()
	o := Options{Files: files, Quiet: true}
	trace, err := o.Open(nil, input.Options{Events: true}, resolve.Options{})
	check(t, err)
	defer trace.Close()
	var out, stderr bytes.Buffer
	_, err = trace.Read(func(*resolve.Resolver) render.Renderer { return render.NewText(&out, render.TextOptions{}) }, &stderr)
	check(t, err)
	return out.String(), stderr.String()
}

// TestReport: frames of a report of pages have their files by its log: not before the log
// says so, not after it ends, and not in a trace that is read with another one.
func TestReport(t *testing.T) {
	plain, _ := replayed(t, pagesOf(t, ""))
	m := regexp.MustCompile(`-(\d+) +\[\d+\] \S+ +(\d+\.\d+): <user stack trace>\n =>  <([0-9a-f]{16})>`).FindAllStringSubmatch(plain, -1)
	if len(m) < 100 {
		t.Fatalf("%d stacks", len(m))
	}
	first, last := m[0], m[len(m)-1]
	for _, x := range m { // of one thread
		if x[1] == first[1] {
			last = x
		}
	}
	page := first[3][:13]
	log := func(until string) string {
		return fmt.Sprintf("read 0.000000001 0.000000000 %s 1 all:1 x\n %s000-%sfff r-xp 0 8:0 1 0 file - /planted\nseen 0.000000001 %s %s\nuntil %s000\n",
			first[1], page, page, first[1], first[1], until)
	}
	all := pagesOf(t, log("9999999.000000"))
	text, notes := replayed(t, all)
	named := strings.Count(text, "/planted")
	if named == 0 || notes != "" || !strings.Contains(text, "# ustack: version=1\n") || !strings.HasSuffix(text, "# ustack: end\n") {
		t.Errorf("%d frames have the file; printed %q", named, notes)
	}
	if text, _ := replayed(t, pagesOf(t, log("0.000001"))); strings.Count(text, "/planted") != strings.Count(text, " (claimed) : path=/planted") {
		t.Errorf("after the end of the log a file is more than claimed (the last stack is of %s)", last[2])
	}
	o := Options{Files: []string{all, all}, Quiet: true}
	if _, err := o.Open(nil, input.Options{}, resolve.Options{}); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("two reports: error %v", err)
	}
}
