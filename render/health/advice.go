package health

import (
	"fmt"
	"path"
	"strconv"

	"ustack/filemap/unwind/health"
)

// Close implements Writer: it prints the reasons, with the files of each.
func (t *text) Close() error {
	if len(t.files) == 0 {
		return nil
	}
	by := make(map[health.Reason][]int)
	last := health.Reason(0)
	for i := range t.files {
		for _, r := range t.files[i].reasons {
			by[r] = append(by[r], i)
			last = max(last, r)
		}
	}
	for r := health.Reason(0); r <= last; r++ {
		if list := by[r]; len(list) > 0 {
			t.reason(r, list)
		}
	}
	for i := range t.bare {
		t.bareCode(&t.bare[i])
	}
	if len(t.files) > 1 {
		t.sum()
	}
	return t.flush()
}

// reason prints a reason with its files.
func (t *text) reason(r health.Reason, list []int) {
	const indent = "    "
	t.wrap("\n"+t.count(len(list))+": ", indent, r.Why())
	for _, do := range t.do(r, list) {
		t.wrap(indent+"do: ", indent+"    ", do)
	}
	if len(t.files) > 1 {
		t.wrapWords(indent+"in: ", indent+"    ", t.which(list))
	}
}

// do returns what to do with the files of a reason: those without a build ID can need
// another thing. If others have several build IDs, "BUILD-ID" stands for them.
func (t *text) do(r health.Reason, list []int) (do []string) {
	const several = "BUILD-ID"
	id, without := "", false
	for _, i := range list {
		switch this := t.files[i].id; {
		case this == "":
			without = true
		case id == "" || id == this:
			id = this
		default:
			id = several
		}
	}
	if id != "" {
		do = append(do, r.Do(id))
	}
	if without && (id == "" || r.Do("") != do[0]) {
		do = append(do, r.Do(""))
	}
	return do
}

// count returns a number of files.
func (t *text) count(n int) string {
	switch total := len(t.files); {
	case total == 1:
		return "this file"
	case n == total:
		return "all " + strconv.Itoa(n) + " files"
	default:
		return strconv.Itoa(n) + " of " + strconv.Itoa(total) + " files"
	}
}

// maxListed is how many files of a reason are listed, unless all are.
const maxListed = 8

// which lists files, or those that are not among them, if they are few.
func (t *text) which(list []int) []string {
	const few = 3
	if len(list) == len(t.files) {
		return []string{"all"}
	}
	var others []int
	next := 0
	for i := range t.files {
		if next < len(list) && list[next] == i {
			next++
		} else {
			others = append(others, i)
		}
	}
	if len(others) <= few && len(list) > few {
		return append([]string{"all but"}, t.listed(others)...)
	}
	return t.listed(list)
}

// listed returns the names of files, with commas.
func (t *text) listed(list []int) (out []string) {
	for k, i := range list {
		if k == maxListed && !t.verbose {
			return append(out, fmt.Sprintf("and %d more (-v lists all)", len(list)-k))
		}
		name := t.name(i)
		if k < len(list)-1 {
			name += ","
		}
		out = append(out, name)
	}
	return out
}

// name returns the base name of a file, or its path if others have the same
// one.
func (t *text) name(i int) string {
	name := t.files[i].path
	if base := path.Base(name); t.bases[base] < 2 {
		name = base
	}
	return clean(name)
}

// bareCode prints what becomes of stacks in code without a file.
func (t *text) bareCode(p *health.Process) {
	const indent = "    "
	t.wrap(fmt.Sprintf("\nprocess %d (%s): ", p.PID, clean(p.Name)), indent,
		fmt.Sprintf("whole stacks (--unwind=auto) stop in code that has no tables, perhaps of a JIT compiler (executable mappings without a file: %d, %dK)", p.Bare, p.BareBytes>>10))
	t.wrap(indent+"do: ", indent+"    ", "if it is one, let the compiler keep frame pointers and write names (java -XX:+PreserveFramePointer, node --perf-basic-prof), and use --unwind=fp")
}

// sum prints what holds for all.
func (t *text) sum() {
	var whole, kernel int
	for i := range t.files {
		if t.files[i].unwound == health.Through {
			whole++
		}
		if t.files[i].kernel == health.Through {
			kernel++
		}
	}
	t.wrap("\n", "    ", fmt.Sprintf("%d files: stacks go whole through %d of them with --unwind=auto, through %d with the kernel's frame pointers", len(t.files), whole, kernel))
}
