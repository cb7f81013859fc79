package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// htmlTable and htmlLines are the data of the page that are compared.
type htmlTable struct {
	Rows []struct {
		Kind, Name string
		Waits      int64
		Time       [3]int64
		Slept      int64
		Max        int64
	}
}

type htmlLines struct {
	Start                  string
	Lines                  []struct{ Bars [][]int64 }
	Awake                  int64
	MoreWaits, MoreThreads int64
}

var htmlData = regexp.MustCompile(`(?s)<script type="application/json" id="data-(\w+)">(.*?)</script>`)

// readFutexHTML reads the data of a page.
func readFutexHTML(t *testing.T, page string) (table htmlTable, lines htmlLines, parts [][3]int64) {
	t.Helper()
	flame := struct{ Parts *[][3]int64 }{&parts}
	into := map[string]any{"locks": &table, "waits": &lines, "profile": &flame}
	for _, m := range htmlData.FindAllStringSubmatch(page, -1) {
		if v := into[m[1]]; v != nil {
			if err := json.Unmarshal([]byte(m[2]), v); err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
			delete(into, m[1])
		}
	}
	if len(into) > 0 {
		t.Fatalf("the page lacks %v", into)
	}
	return table, lines, parts
}

// TestFutexHTML: the table of the page is that of the report, and for each lock the
// bars of the time line are as many and as long as it says, and the flame graph as
// wide.
func TestFutexHTML(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	waits := int64(0)
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			type entry struct {
				Address, Kind, Role          string
				Waits, Changed, Failed, Open int64
				Total                        int64 `json:"total_ns"`
				Blocked                      int64 `json:"blocked_ns"`
				Max                          int64 `json:"max_ns"`
				NoReturn                     int64 `json:"no_return"`
				Bounds                       struct{ Low, High int64 }
			}
			var report struct {
				Start           int64 `json:"start_ns"`
				Locks, Condvars []entry
				Longest         []struct {
					From int64 `json:"from_ns"`
					Time int64 `json:"time_ns"`
				}
			}
			args := append([]string{"-q", "--maps", c.maps}, c.args...)
			command := func(flags ...string) []string { return append(append([]string{"futex"}, flags...), args...) }
			if err := json.Unmarshal([]byte(profileRun(t, command("--json", "--top=0")...)), &report); err != nil {
				t.Fatal(err)
			}
			table, lines, parts := readFutexHTML(t, profileRun(t, command("--format=html")...))
			if lines.Start != fmt.Sprint(report.Start) || lines.MoreWaits+lines.MoreThreads != 0 && len(lines.Lines) < 100 {
				t.Errorf("the time line begins at %s, want %d, and leaves out %d waits", lines.Start, report.Start, lines.MoreWaits)
			}
			drawn, wide := make([]int64, len(table.Rows)), make([]int64, len(table.Rows))
			bars := make(map[[2]int64]bool)
			for _, line := range lines.Lines {
				for _, b := range line.Bars {
					bars[[2]int64{b[0] + report.Start, b[1]}] = true
					if b[2] >= 0 {
						drawn[b[2]] += b[1]
					}
				}
			}
			for _, p := range parts {
				wide[p[1]] += p[2]
			}
			want := append(report.Locks, report.Condvars...)
			if len(table.Rows) != len(want) {
				t.Fatalf("%d rows, want %d", len(table.Rows), len(want))
			}
			for i, w := range want {
				row := &table.Rows[i]
				waits += row.Waits
				kind := w.Kind
				if w.Role != "" {
					kind = w.Role + " (" + w.Kind + ")"
				}
				if row.Kind != kind || !strings.Contains(row.Name, w.Address) || row.Waits != w.Waits || row.Max != w.Max || row.Time[0] != w.Total+w.Blocked {
					t.Errorf("row %d is %+v, want %+v", i, row, w)
				}
				if lines.MoreThreads == 0 && drawn[i] != w.Total+w.Blocked {
					t.Errorf("%d ns of %s %s are drawn, want %d", drawn[i], w.Kind, w.Address, w.Total+w.Blocked)
				}
				if i < len(report.Locks) && wide[i] != w.Total {
					t.Errorf("%d ns of %s %s are in the flame graph, want %d", wide[i], w.Kind, w.Address, w.Total)
				}
			}
			for _, w := range report.Longest {
				if !bars[[2]int64{w.From, w.Time}] {
					t.Errorf("the wait of %d ns from %d is not drawn", w.Time, w.From)
				}
			}
		})
	}
	if waits == 0 {
		t.Error("no thread waits in any of the captures")
	}
}
