package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/filemap"
	"ustack/filemap/resolve"
)

// WriteTotals prints the totals of a trace for people.
func WriteTotals(w io.Writer, t *resolve.Totals) {
	var b strings.Builder
	fmt.Fprintf(&b, "ustack: %d events, %d stacks, %d frames: %d resolved", t.Events, t.Stacks, t.Frames, t.Resolved())
	list(&b, " (", ")", words(t.Trusts[:], func(i int) string { return filemap.Trust(i).String() }))
	fmt.Fprintf(&b, ", %d unresolved", t.Frames-t.Resolved())
	list(&b, " (", ")", words(t.Reasons[:], func(i int) string { return filemap.Reason(i).String() }))
	fmt.Fprintf(&b, "\nustack: %d distinct files, %d file mapping events", t.Files, t.MappingEvents)
	if t.Rebound > 0 {
		fmt.Fprintf(&b, " (%d with an identifier of another file)", t.Rebound)
	}
	if t.BadMappingEvents > 0 {
		fmt.Fprintf(&b, " (%d unusable)", t.BadMappingEvents)
	}
	b.WriteByte('\n')
	writeReach(&b, t)
	if n := t.Trusts[filemap.Claimed]; n > 0 {
		fmt.Fprintf(&b, "ustack: %d of %d frames rest on claims, made because of another stack (--maps checks them, --strict leaves them unresolved)\n", n, t.Frames)
	}
	if t.Requests+t.Missing[resolve.Refused] > 0 {
		var never int64
		for _, n := range t.Missing {
			never += n
		}
		fmt.Fprintf(&b, "ustack: %d stacks requested, %d never seen", t.Requests+t.Missing[resolve.Refused], never)
		list(&b, " (", ")", words(t.Missing[:], func(i int) string { return resolve.Missing(i).String() }))
		b.WriteByte('\n')
	}
	writeStackless(&b, t)
	if t.PendingTooLong > 0 {
		fmt.Fprintf(&b, "ustack: %d events were printed before their stacks came\n", t.PendingTooLong)
	}
	if t.Orphans+t.Cut > 0 {
		fmt.Fprintf(&b, "ustack: %d stacks without their request, %d cut short by the kernel or the end of the input\n", t.Orphans, t.Cut)
	}
	writeLoss(&b, t)
	_, _ = io.WriteString(w, b.String())
}

// WriteLoss prints how many records are missing, nothing if none is.
func WriteLoss(w io.Writer, t *resolve.Totals) {
	var b strings.Builder
	writeLoss(&b, t)
	_, _ = io.WriteString(w, b.String())
}

// writeStackless says how many events have no stack.
func writeStackless(b *strings.Builder, t *resolve.Totals) {
	var n int64
	for _, v := range stackless(t) {
		n += v
	}
	if n > 0 {
		fmt.Fprintf(b, "ustack: %d events without a stack", n)
		list(b, " (", ")\n", words(stackless(t), stacklessWord))
	}
}

// stackless counts events without a stack where the kernel writes one with each:
// with deferred stacks the requests are counted, and kernel threads have none.
func stackless(t *resolve.Totals) []int64 {
	if t.Stacks == 0 || t.Requests+t.Missing[resolve.Refused] > 0 {
		return nil
	}
	return t.Stackless[:]
}

// stacklessWord is why an event has no stack.
func stacklessWord(i int) string {
	if resolve.Missing(i) == resolve.NotMissing {
		return "not-recorded"
	}
	return resolve.Missing(i).String()
}

// words lists the counts that are not zero as "3 lost".
func words(counts []int64, name func(int) string) []string {
	var out []string
	for i, n := range counts {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, name(i)))
		}
	}
	return out
}

func list(b *strings.Builder, before, after string, items []string) {
	if len(items) > 0 {
		b.WriteString(before + strings.Join(items, ", ") + after)
	}
}

// lostCPUs returns the CPUs that lost records, in order.
func lostCPUs(t *resolve.Totals) []int32 {
	cpus := make([]int32, 0, len(t.Lost))
	for cpu := range t.Lost {
		cpus = append(cpus, cpu)
	}
	slices.Sort(cpus)
	return cpus
}

func writeLoss(b *strings.Builder, t *resolve.Totals) {
	if len(t.Lost) > 0 {
		n, exact := t.LostRecords()
		more := ""
		if !exact {
			more = "at least "
		}
		var cpus []string
		for _, cpu := range lostCPUs(t) {
			l := t.Lost[cpu]
			text := fmt.Sprintf("CPU %d: %d in %d gaps", cpu, l.Records, l.Gaps)
			if cpu < 0 {
				text = fmt.Sprintf("overwritten before the trace was read: %d", l.Records)
			}
			cpus = append(cpus, text)
		}
		fmt.Fprintf(b, "ustack: lost %s%d records (%s)\n", more, n, strings.Join(cpus, ", "))
	}
	if t.Gaps > 0 {
		fmt.Fprintf(b, "ustack: %d places where records may be missing (a buffer that starts late, a line too big)\n", t.Gaps)
	}
}
