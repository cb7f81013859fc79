package render

import (
	"fmt"
	"strings"

	"ustack/filemap/resolve"
	"ustack/tracefs/escape"
)

// ReachWords say how far stacks go: "12.5 % reach application code, …". They follow how
// many stacks there are, which are some.
func ReachWords(r *resolve.Reach) string {
	var b strings.Builder
	share := func(n int64) float64 { return 100 * float64(n) / float64(r.Stacks) }
	fmt.Fprintf(&b, "%.1f %% reach application code", share(r.Application))
	kernel := r.Stacks - r.Unwound
	switch {
	case r.Unwound == 0:
		b.WriteString("; which reach the root is not known (frame pointers)")
	case kernel == 0:
		fmt.Fprintf(&b, ", %.1f %% the root of the thread", share(r.Root))
	default:
		fmt.Fprintf(&b, ", %.1f %% the root of the thread; %d are the kernel's, by frame pointers", share(r.Root), kernel)
	}
	if r.End != "" {
		b.Write(escape.Append([]byte("; most of the others end in "), []byte(r.End)))
	}
	return b.String()
}

// reachJSON is how far stacks go. The numbers are of stacks.
type reachJSON struct {
	Of          string `json:"of"` // resolve.OfWaits or another such word
	Stacks      int64  `json:"stacks"`
	Unwound     int64  `json:"unwound"`
	Application int64  `json:"application"`
	Root        int64  `json:"root"`
	End         string `json:"others_end_in,omitempty"`
}

// reachOf returns how far the stacks of a trace go, nil if unknown.
func reachOf(t *resolve.Totals) *reachJSON {
	r, of := t.Reach()
	if r == nil {
		return nil
	}
	return &reachJSON{of, r.Stacks, r.Unwound, r.Application, r.Root, strings.ToValidUTF8(r.End, "\ufffd")}
}

// writeReach says how far the stacks go.
func writeReach(b *strings.Builder, t *resolve.Totals) {
	r, of := t.Reach()
	if r == nil {
		return
	}
	what := map[string]string{resolve.OfWaits: "stacks of waits", resolve.OfUnwound: "stacks that ustack has unwound", resolve.OfAll: "stacks"}[of]
	fmt.Fprintf(b, "ustack: of %d %s, %s\n", r.Stacks, what, ReachWords(r))
}
