package instance

import (
	"slices"
	"strings"
	"testing"
)

// TestConfigure: in a plain directory, all that is written can be seen. Options
// that are not there are skipped.
func TestConfigure(t *testing.T) {
	r := fake(t, "irq-info", "context-info", "fields", "record-tgid", "overwrite", optionStock, optionDeferred)
	in := create(t, r)
	check(t, in.Configure(Config{BufferKB: 4096, Discard: true, TGID: true}))
	for name, want := range map[string]string{
		"tracing_on": "0", "current_tracer": "nop", "trace_clock": "mono", "buffer_size_kb": "4096",
		"options/irq-info": "1", "options/context-info": "1", "options/fields": "0", "options/record-tgid": "1",
		"options/overwrite": "0", "options/" + optionStock: "0", "options/" + optionDeferred: "0",
		"trace_options": "untouched",
	} {
		in.is(t, name, want)
	}
	if in.dir.has("options/latency-format") {
		t.Error("an option has been made that the kernel does not have")
	}
	if kb, err := in.BufferKB(); kb != 4096 || err != nil {
		t.Errorf("buffer: %d (%v)", kb, err)
	}
}

func TestConfigureLittle(t *testing.T) {
	r := fake(t, "record-tgid")
	in := create(t, r)
	check(t, in.Configure(Config{Clock: "boot"}))
	in.is(t, "trace_clock", "boot")
	in.is(t, "buffer_size_kb", "untouched")
	in.is(t, "options/record-tgid", "untouched")
}

// TestWords: options without a file are words of trace_options.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		name, words string
		on          bool
		known       bool
		want        string
	}{
		{"record-cmd", "annotate\nnorecord-cmd\n", true, true, "record-cmd"},
		{"record-cmd", "annotate\nrecord-cmd\n", true, true, "annotate\nrecord-cmd"},
		{"record-cmd", "annotate\n", true, false, "annotate"},
		{"block", "block\n", false, true, "noblock"},
		{"block", "noblock\n", false, true, "noblock"},
	} {
		r := fake(t)
		in := create(t, r)
		check(t, in.write("trace_options", c.words))
		known, err := in.SetOption(c.name, c.on)
		if known != c.known || err != nil {
			t.Errorf("%s in %q: %v, %v", c.name, c.words, known, err)
		}
		in.is(t, "trace_options", c.want)
	}
}

func TestParseKB(t *testing.T) {
	for text, want := range map[string]int{"1410\n": 1410, "7 (expanded: 1408)\n": 7, "0": 0, "X\n": -1, "": -1, "-3": -1, "99999999999": -1} {
		got, err := parseKB(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d (%v), want %d", text, got, err, want)
		}
	}
}

// TestLiveConfigure: a real instance, with all options the other way round
// before, as if it had inherited them.
func TestLiveConfigure(t *testing.T) {
	r := live(t)
	in := create(t, r)
	for _, o := range options {
		switch o.name {
		case "record-cmd": // would switch it off for all
			continue
		}
		if _, err := in.SetOption(o.name, !o.on); err != nil {
			t.Errorf("%s: %v", o.name, err)
		}
	}
	check(t, in.write("trace_clock", "counter"))
	check(t, in.Configure(Config{BufferKB: 300}))
	text, err := in.read("trace_options")
	check(t, err)
	words := strings.Fields(text)
	for _, o := range options {
		bad := o.name
		if o.on {
			bad = "no" + bad
		}
		if slices.Contains(words, bad) {
			t.Errorf("the option is still %s", bad)
		}
	}
	if clock, err := in.Clock(); clock != "mono" || err != nil {
		t.Errorf("clock %q (%v)", clock, err)
	}
	if kb, err := in.BufferKB(); kb < 300 || kb > 400 || err != nil {
		t.Errorf("a buffer of %d KiB (%v), 300 were asked for", kb, err)
	}
	in.is(t, "tracing_on", "0")
}

func TestLiveConfigureErrors(t *testing.T) {
	r := live(t)
	in := create(t, r)
	err := in.Configure(Config{Clock: "sundial"})
	if err == nil || !strings.Contains(err.Error(), "sundial") || !strings.Contains(err.Error(), "mono_raw") {
		t.Errorf("error %v does not name the clocks there are", err)
	}
	if err := in.Configure(Config{BufferKB: 1 << 30}); err == nil || !strings.Contains(err.Error(), "1073741824 KiB") {
		t.Errorf("a buffer of a TiB: error %v", err)
	}
}
