package render

import (
	"fmt"
	"io"

	"ustack/filemap/procmap"
)

// WriteMapsCounts prints how many processes could not be read, nothing if all
// could. may is set if we have CAP_SYS_PTRACE, hidden if proc may not list all
// processes.
func WriteMapsCounts(w io.Writer, c *procmap.Counts, may, hidden bool) {
	switch {
	case c.Denied == 0:
	case may:
		fmt.Fprintf(w, "ustack maps: not permitted to read %d processes, in spite of CAP_SYS_PTRACE\n", c.Denied)
	default:
		fmt.Fprintf(w, "ustack maps: not permitted to read %d processes of others: that needs CAP_SYS_PTRACE\n", c.Denied)
	}
	if hidden {
		fmt.Fprint(w, "ustack maps: processes of other users may be missing: proc is mounted with hidepid\n")
	}
	if c.Gone > 0 {
		fmt.Fprintf(w, "ustack maps: %d processes ended before they were read\n", c.Gone)
	}
	if c.Failed > 0 {
		fmt.Fprintf(w, "ustack maps: %d processes could not be read, the first: %v\n", c.Failed, c.Err)
	}
}

// NoAnswer returns the note that file systems, or their servers, gave no
// answer.
func NoAnswer(n int) string {
	return fmt.Sprintf("%d file systems gave no answer in time: their files have no build ID", n)
}
