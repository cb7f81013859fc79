package input

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs"
)

// instanceReport is what trace-cmd 3.1.6 report prints of two.dat, which has two instances
// (tracefs/tracedat/testdata), with a stack and a loss put in.
const instanceReport = `cpus=2
                  seven-7     [000]     0.001000: tick:                 n=1
CPU:1 [4 EVENTS DROPPED]
                  seven-7     [001]     0.010000: tick:                 n=10
in it:            seven-7     [000]     0.010100: user_stack:           	=> 0x7f0000001000
	=> 0x7f0000002000
in it:            seven-7     [000]     0.101000: tick:                 n=101
                  seven-7     [000]     0.101500: tick:                 n=5
in it:            seven-7     [000]     0.102000: tick:                 n=102
`

// TestReportInstances: each instance of a text of trace-cmd report is an input: records have
// their source, and stay in order of time with their frames. A text with one column of
// names has one, and text as the kernel prints it has none.
func TestReportInstances(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report")
	for _, c := range []struct {
		text    string
		sources int
	}{
		{instanceReport, 2},
		{"in it:            seven-7     [000]     0.101000: tick:  n=101\n", 1},
		{"            seven-7     [000] .....     0.101000: tick: in it:            seven-7     [000]     0.1: tick: n\n", 1},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		trace, err := OpenAll([]string{name}, nil, Options{Events: true})
		if err != nil {
			t.Fatal(err)
		}
		if trace.Sources() != c.sources {
			t.Errorf("%d sources instead of %d of\n%s", trace.Sources(), c.sources, c.text)
		}
		var b tracefs.Batch
		var text strings.Builder
		records, frames, second := 0, 0, 0
		for err = nil; err == nil; {
			err = trace.Next(&b)
			text.Write(b.Text)
			for i := range b.Records {
				r := &b.Records[i]
				if !b.Headed(r) {
					continue
				}
				records++
				list, _ := b.StackFrames(r)
				frames += len(list)
				if strings.HasPrefix(string(b.Raw(r)), "           seven-7 ") && r.Source == 1 {
					second++
				}
			}
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		if err := trace.Close(); err != nil {
			t.Error(err)
		}
		if c.text != instanceReport {
			continue
		}
		want := strings.NewReplacer("\nin it: ", "\n", "\n       ", "\n").Replace(instanceReport)
		if text.String() != want || records != 6 || frames != 2 || second != 3 {
			t.Errorf("%d records, %d frames, %d of the second instance:\n%s\nwant:\n%s", records, frames, second, text.String(), want)
		}
	}
}

// FuzzInstances: each line of a text is of one instance at most, none is made up, and all
// are read.
func FuzzInstances(f *testing.F) {
	f.Add(instanceReport)
	f.Add("a:             seven-7     [000]     0.1: tick: \nCPU:1\n")
	f.Fuzz(func(t *testing.T, in string) {
		name := filepath.Join(t.TempDir(), "report")
		if err := os.WriteFile(name, []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(name, nil)
		if err != nil || file.instances == nil {
			return
		}
		defer file.Close()
		total := 0
		for i, one := range file.instances.names {
			out, err := io.ReadAll(newInstanceReader(file.section(), file.instances.width, one, i == 0))
			if err != nil {
				t.Fatal(err)
			}
			total += len(out)
		}
		if total > len(in) {
			t.Fatalf("%d bytes of %d", total, len(in))
		}
	})
}
