package render

import (
	"fmt"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/plainjson"
)

// totalsJSON is the last line of the JSON output.
type totalsJSON struct {
	Type           string           `json:"type"`
	Events         int64            `json:"events"`
	Stacks         int64            `json:"stacks"`
	StacksCut      int64            `json:"stacks_cut"`
	Frames         int64            `json:"frames"`
	Resolved       map[string]int64 `json:"resolved"`
	Unresolved     map[string]int64 `json:"unresolved"`
	Reach          *reachJSON       `json:"reach,omitempty"`
	Files          int              `json:"files"`
	MappingEvents  int64            `json:"announcements"`
	Unusable       int64            `json:"announcements_unusable"`
	Rebound        int64            `json:"announcements_rebound"`
	Requests       int64            `json:"stacks_asked"`
	Missing        map[string]int64 `json:"stacks_missing"`
	Stackless      map[string]int64 `json:"events_without_stack,omitempty"`
	PendingTooLong int64            `json:"events_held_too_long"`
	Orphans        int64            `json:"stacks_without_request"`
	Lost           []lossJSON       `json:"lost"`
	Gaps           int64            `json:"gaps"`
}

// lossJSON is the loss of one CPU; CPU is absent for records that were
// overwritten before the trace was read, which the kernel counts over all CPUs.
type lossJSON struct {
	CPU     *int32 `json:"cpu,omitempty"`
	Gaps    int64  `json:"gaps"`
	Records uint64 `json:"records"`
	Unknown bool   `json:"more,omitempty"`
}

// Close implements Renderer.
func (j *JSON) Close(t *resolve.Totals) error {
	if !j.started {
		j.start()
	}
	out := totalsJSON{
		Type: "totals", Events: t.Events, Stacks: t.Stacks, StacksCut: t.Cut, Frames: t.Frames,
		Resolved:   counted(t.Trusts[:], func(i int) string { return filemap.Trust(i).String() }),
		Unresolved: counted(t.Reasons[:], func(i int) string { return filemap.Reason(i).String() }),
		Reach:      reachOf(t),
		Files:      t.Files, MappingEvents: t.MappingEvents, Unusable: t.BadMappingEvents, Rebound: t.Rebound,
		Requests:       t.Requests + t.Missing[resolve.Refused],
		Missing:        counted(t.Missing[:], func(i int) string { return resolve.Missing(i).String() }),
		Stackless:      counted(stackless(t), stacklessWord),
		PendingTooLong: t.PendingTooLong,
		Orphans:        t.Orphans, Gaps: t.Gaps, Lost: []lossJSON{},
	}
	for _, cpu := range lostCPUs(t) {
		l := t.Lost[cpu]
		row := lossJSON{Gaps: l.Gaps, Records: l.Records, Unknown: l.Unknown}
		if cpu >= 0 {
			row.CPU = &cpu
		}
		out.Lost = append(out.Lost, row)
	}
	line, err := plainjson.Marshal(out)
	if err != nil {
		return fmt.Errorf("writing the totals as JSON: %w", err)
	}
	j.out.buf = append(append(j.out.buf, line...), '\n')
	return j.out.flush()
}

// counted maps words to counts that are not zero.
func counted(counts []int64, name func(int) string) map[string]int64 {
	m := make(map[string]int64)
	for i, n := range counts {
		if n > 0 {
			m[name(i)] = n
		}
	}
	return m
}
