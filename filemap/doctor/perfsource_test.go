//go:build !device

package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ustack/filemap/facts"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// TestPerfSource: it takes perf, and to read tracefs.
func TestPerfSource(t *testing.T) {
	files := func(readable bool) *instance.Facts {
		return &instance.Facts{Path: "/t", Files: []instance.FileFact{
			{Name: "available_events", Readable: readable}, {Name: "events", Readable: readable}, {Name: "tracing_on", Readable: true},
		}}
	}
	for _, c := range []struct {
		name       string
		tracing    *instance.Facts
		tracingErr error
		band       error
		own        bool
		state      State
		found, fix string
	}{
		{"all", files(true), nil, nil, false, OK, "--source=perf", ""},
		{"no perf", files(true), nil, fmt.Errorf("opening: %w", perf.ErrDenied), false, Limited, "CAP_PERFMON", "perf_event_paranoid=0"},
		{"processes of our own", files(true), nil, fmt.Errorf("opening: %w", perf.ErrDenied), true, Limited, "of our own, with -p", "perf_event_paranoid=0"},
		{"processes of our own, but for tracefs", files(false), nil, fmt.Errorf("opening: %w", perf.ErrDenied), true, Limited, "may not read", "mount -o remount,gid=GROUP,mode=750 /t"},
		{"perf without a side band", files(true), nil, errors.New("no"), false, Limited, "side band", ""},
		{"tracefs that may not be read", files(false), nil, nil, false, Limited, "may not read", "mount -o remount,gid=GROUP,mode=750 /t"},
		{"tracefs that may not be looked into", nil, errors.New("denied"), nil, false, Limited, "may not read", "mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing"},
		{"no tracefs", nil, instance.ErrNoTracefs, nil, false, Limited, "not mounted", ""},
	} {
		f := rightChecks{&Findings{Tracing: c.tracing, TracingErr: c.tracingErr, Facts: &facts.Facts{
			Band: facts.Band{Err: c.band, Own: c.own}, Sysctls: map[string]int{facts.PerfParanoid: 2},
		}}}
		list := f.perfSource()
		if len(list) != 1 {
			t.Fatalf("%s: %+v", c.name, list)
		}
		if got := &list[0]; got.State != c.state || got.Required || !strings.Contains(got.Found, c.found) || !strings.HasSuffix(got.Fix, c.fix) || (got.Without == "") != (c.state == OK) {
			t.Errorf("%s: %+v", c.name, *got)
		}
	}
}
