package instance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFacts(t *testing.T) {
	r := fake(t)
	tree(t, r.Path(), map[string]string{"tracing_on": "1\n", "options/" + optionDeferred: "0\n", "options/annotate": "1\n"})
	f := r.Facts()
	if f.Path != r.Path() || !f.Deferred || len(f.Errors) > 0 || f.Events != len(fakeEvents) {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.Options, []string{"annotate", optionDeferred}) || !slices.Equal(f.Clocks, []string{"local", "global", "mono"}) ||
		list(f.Mappings) != "file_map:file_map" || len(f.Default)+len(f.DefaultMissing) != len(Defaults()) || len(f.Instances) != 1 {
		t.Errorf("%+v", f)
	}
	for _, file := range f.Files {
		switch file.Name {
		case "tracing_on":
			if !file.OK() || !file.Exists || !file.Writable {
				t.Errorf("%+v", file)
			}
		case "trace_pipe":
			if file.OK() || file.Exists || file.Optional {
				t.Errorf("%+v", file)
			}
		}
	}
	if f.ReadOnly || !slices.Equal(f.Leftovers, f.Instances) {
		t.Errorf("read-only %v, left over %q", f.ReadOnly, f.Leftovers)
	}
	check(t, os.Remove(filepath.Join(r.Path(), "trace_clock")))
	if f := r.Facts(); len(f.Errors) != 1 || !strings.Contains(f.Errors[0].Error(), "trace_clock") {
		t.Errorf("without clocks: %v", f.Errors)
	}
}

// TestLeftovers: those whose process is dead, by our kind of name; they stay.
func TestLeftovers(t *testing.T) {
	r := fake(t)
	mine := create(t, r)
	tree(t, r.Path(), map[string]string{instances + "/" + Prefix + "4.2/": "", instances + "/bench-1/": "", instances + "/" + Prefix + "5x/": ""})
	for range 2 {
		if left, err := r.Leftovers(); err != nil || !slices.Equal(left, []string{Prefix + "4.2"}) {
			t.Errorf("left over: %q, %v", left, err)
		}
	}
	if all, err := r.Instances(); err != nil || len(all) != 4 || !slices.Contains(all, mine.Name()) {
		t.Errorf("instances %q, %v", all, err)
	}
}

// TestFactsOptional: what can be done without says how.
func TestFactsOptional(t *testing.T) {
	for _, file := range needed {
		if file.Optional != (file.Without != "") || file.Use == "" {
			t.Errorf("%+v", file)
		}
	}
}

// TestLiveFacts: all that we cannot do without is there, and looking changes
// nothing.
func TestLiveFacts(t *testing.T) {
	r := live(t)
	f := r.Facts()
	for _, file := range f.Files {
		if !file.OK() && !file.Optional {
			t.Errorf("%+v", file)
		}
	}
	if len(f.Errors) > 0 || f.Events < 100 || !slices.Contains(f.Clocks, "mono") || !slices.Contains(f.Options, "irq-info") {
		t.Errorf("%+v", f)
	}
}
