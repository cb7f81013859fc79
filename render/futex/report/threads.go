package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// leastPart is the share of the time, as a part of the whole, below which threads are not listed
// one by one in a brief report: of a server with a thread for each connection all have less.
const leastPart = 100

// named are the threads of one name.
type named struct {
	comm    string
	threads int
	time    tracefs.Time
}

// byName adds up threads by name. The name with the longest time is first.
func byName(list []futex.ThreadTime) (names []named) {
	at := make(map[string]int)
	for _, x := range list {
		i, ok := at[x.Comm]
		if !ok {
			i = len(names)
			at[x.Comm] = i
			names = append(names, named{comm: x.Comm})
		}
		names[i].threads++
		names[i].time += x.Time
	}
	slices.SortStableFunc(names, func(a, b named) int { return cmp.Compare(b.time, a.time) })
	return names
}

// whoByName is who for many threads of which none has much of the time.
func whoByName(list []futex.ThreadTime, rest futex.Tally, whole tracefs.Time, n int) string {
	names := byName(list)
	var out []string
	for _, x := range names[:min(n, len(names))] {
		if x.comm == "" {
			x.comm = tracefs.CommUnknown
		}
		out = append(out, fmt.Sprintf("%s %s (%s)", phrase.Printable(x.comm), phrase.Percent(x.time, whole), phrase.Plural(x.threads, "thread")))
	}
	if more := len(names) - n; more > 0 {
		out = append(out, fmt.Sprintf("%d more names", more))
	}
	if rest.Count > 0 {
		out = append(out, phrase.Percent(rest.Time, whole)+" in short waits")
	}
	return strings.Join(out, ", ")
}
