package instance

import (
	"os"
	"strings"
	"testing"
)

func TestSetStacks(t *testing.T) {
	for _, c := range []struct {
		options []string
		want    StackSource
		got     StackSource
		err     string
	}{
		{[]string{optionStock}, BestStacks, StockStacks, ""},
		{[]string{optionStock}, DeferredStacks, 0, "no option userstacktrace_delay"},
		{[]string{optionStock, optionDeferred}, BestStacks, DeferredStacks, ""},
		{[]string{optionStock, optionDeferred}, StockStacks, StockStacks, ""},
		{nil, BestStacks, StockStacks, "no option userstacktrace"},
	} {
		in := create(t, fake(t, c.options...))
		check(t, in.Configure(Config{}))
		got, err := in.SetStacks(c.want)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && got != c.got {
			t.Errorf("%q, %v wanted: %v (%v)", c.options, c.want, got, err)
		}
		if c.err != "" {
			continue
		}
		in.is(t, "options/"+optionStock, "1") // v5 wants both
		if in.dir.hasOption(optionDeferred) {
			in.is(t, "options/"+optionDeferred, map[StackSource]string{StockStacks: "0", DeferredStacks: "1"}[got])
		}
	}
}

// TestSetStacksRefused: where too many instances have deferred stacks, stock ones do.
func TestSetStacksRefused(t *testing.T) {
	in := create(t, fake(t, optionStock))
	check(t, in.Configure(Config{}))
	check(t, os.Symlink("/dev/full", in.dir.path("options/"+optionDeferred)))
	if _, err := in.SetStacks(DeferredStacks); err == nil {
		t.Error("the kernel refuses deferred stacks without a report")
	}
	got, err := in.SetStacks(BestStacks)
	if err != nil || got != StockStacks || !in.Refused(got) {
		t.Errorf("%v (%v), refused: %v", got, err, in.Refused(got))
	}
	in.is(t, "options/"+optionStock, "1")
}

// TestMappingEvents are found by the table of dialects, in whatever system.
func TestMappingEvents(t *testing.T) {
	r := fake(t)
	in := create(t, r)
	got, err := in.EnableMappings()
	if err != nil || list(got) != "file_map:file_map" {
		t.Errorf("%s (%v)", list(got), err)
	}
	in.is(t, "events/file_map/file_map/enable", "1")
	in.is(t, "events/sched/sched_switch/enable", "0")

	tree(t, r.Path(), map[string]string{availableEvents: "sched:sched_switch\nfs:inode_cache\n"})
	if got, err := r.mappingEvents(); err != nil || list(got) != "fs:inode_cache" {
		t.Errorf("%s (%v)", list(got), err)
	}
	tree(t, r.Path(), map[string]string{availableEvents: "sched:sched_switch\n"})
	if got, err := in.EnableMappings(); err != nil || len(got) != 0 {
		t.Errorf("%s (%v)", list(got), err)
	}
}

// TestReannounce writes what is there, and only while tracing is on.
func TestReannounce(t *testing.T) {
	in := create(t, fake(t, optionStock, optionDeferred))
	check(t, in.Configure(Config{}))
	check(t, in.Reannounce())
	in.is(t, "tracing_on", "0")
	check(t, in.Start())
	check(t, in.dir.write("tracing_on", "seen"))
	check(t, in.Reannounce())
	in.is(t, "tracing_on", "1")
	check(t, in.Stop())
	check(t, in.Reannounce())
	in.is(t, "tracing_on", "0")
}
