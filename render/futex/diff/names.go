package diff

import (
	"path"
	"strings"

	"ustack/filemap"
)

// class is the part of a report that a row is in.
type class int

const (
	locks class = iota
	signals
	classes
)

func (c class) String() string {
	if c == locks {
		return "locks"
	}
	return "condvars"
}

// numbered replaces each number in a name of a thread or program: there are as many threads
// of a kind as there are CPUs, and PIDs are in names too.
func numbered(name string) string {
	var b strings.Builder
	digit := false
	for _, r := range name {
		was := digit
		if digit = r >= '0' && r <= '9'; !digit {
			b.WriteRune(r)
		} else if !was {
			b.WriteByte('#')
		}
	}
	return b.String()
}

// compilerParts begin what compilers add to the name of a function, or to a part of it, from
// one build to another.
var compilerParts = [...]string{".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.", ".llvm."}

// plain returns a function's name without what differs between builds of the same source.
func plain(function string) string {
	for _, part := range compilerParts {
		function, _, _ = strings.Cut(function, part)
	}
	const hash = "::h0123456789abcdef" // of Rust's mangling
	if i := len(function) - len(hash); i > 0 && strings.HasPrefix(function[i:], "::h") && strings.Trim(function[i+3:], "0123456789abcdef") == "" {
		function = function[:i]
	}
	return function
}

// ofLocks begin the names of functions that wait on behalf of their callers, where a program
// has them in itself.
var ofLocks = [...]string{
	"pthread_", "__pthread_", "___pthread_", "__lll_", "__futex_", "__GI_", "futex_wait",
	"std::mutex::", "std::condition_variable", "std::unique_lock<", "std::lock_guard<", "std::scoped_lock<", "std::__",
	"__gthread_", "runtime.", "sync.", "internal/sync.", "parking_lot", "<parking_lot", "lock_api::", "std::sys::", "std::sync::", "std::thread::park",
}

func waitsForCallers(function string) bool {
	for _, begin := range ofLocks {
		if strings.HasPrefix(function, begin) {
			return true
		}
	}
	return false
}

// place is where in a program a thread waits.
type place struct {
	name string // of the function, or the file with build ID and offset; empty if unknown
	// callers are the functions of the program from there on, the place itself first.
	callers []string
	lines   bool // line information shows which functions are inlined
	// alien: it has no name, and a build ID that the other report lacks.
	alien   bool
	program string // the file that the place is in, without directories
}

// at is an offset in a build of a file.
type at struct{ build, offset string }

// dictionary has what the reports together say of places.
type dictionary struct {
	functions map[at]*frame
	builds    [2]map[string]bool
}

func newDictionary(reports [2]*Report) *dictionary {
	d := &dictionary{functions: make(map[at]*frame)}
	for i, r := range reports {
		d.builds[i] = make(map[string]bool)
		r.doc.eachFrame(func(f *frame) {
			if f.BuildID == "" {
				return
			}
			d.builds[i][f.BuildID] = true
			if old := d.functions[at{f.BuildID, f.Offset}]; f.Function != "" && (old == nil || old.less(f)) {
				d.functions[at{f.BuildID, f.Offset}] = f
			}
		})
	}
	return d
}

// less reports whether another frame of the same place has more: two reports of one build
// can be made with different debug information.
func (f *frame) less(g *frame) bool {
	if len(f.Inlined) != len(g.Inlined) {
		return len(f.Inlined) < len(g.Inlined)
	}
	return f.Function < g.Function
}

// eachFrame passes the frames of all stacks.
func (d *document) eachFrame(do func(*frame)) {
	all := func(list []frame) {
		for i := range list {
			do(&list[i])
		}
	}
	for i := range d.Blocked {
		all(d.Blocked[i].Stack)
	}
	_ = d.eachRow(func(r *row, _ class) error { // do has no error
		for _, list := range [][]stack{r.WaitStacks, r.Wakers} {
			for i := range list {
				all(list[i].Frames)
			}
		}
		return nil
	})
}

// place returns the innermost function that does not wait on behalf of another one, else the
// outermost that is known.
func (d *dictionary) place(frames []frame) (p place) {
	var within *frame // outermost that waits on behalf of others
	for i := range frames {
		f := &frames[i]
		if f.Path == "" {
			continue
		}
		if known := d.functions[at{f.BuildID, f.Offset}]; known != nil && f.Function != known.Function {
			f = known
		}
		inLibc := !(&filemap.File{Path: f.Path}).Application()
		for _, name := range d.names(f) {
			switch {
			case inLibc || f.Function != "" && waitsForCallers(name):
				within = f
			case len(p.callers) == 0:
				p = d.placeOf(f, name)
				fallthrough
			default:
				p.callers = append(p.callers, name)
			}
		}
	}
	if len(p.callers) == 0 && within != nil {
		names := d.names(within)
		p = d.placeOf(within, names[len(names)-1])
		p.program, p.callers = "", []string{p.name} // of which program is not known
	}
	return p
}

func (d *dictionary) placeOf(f *frame, name string) place {
	return place{name: name, lines: f.Line > 0 || len(f.Inlined) > 0, program: path.Base(f.Path), alien: f.Function == "" && !d.both(f.BuildID)}
}

// both reports whether both reports have frames of a build.
func (d *dictionary) both(build string) bool { return d.builds[0][build] && d.builds[1][build] }

// names returns the functions of a frame, the innermost first.
func (d *dictionary) names(f *frame) (names []string) {
	for _, in := range f.Inlined {
		names = append(names, plain(in.Function))
	}
	if f.Function != "" {
		return append(names, plain(f.Function))
	}
	return append(names, path.Base(f.Path)+"+"+f.Offset)
}

// variable returns the name that a row's lock is known by, empty if it has none.
func (r *row) variable() string {
	switch {
	case r.Role != "":
		return r.Role
	case r.Symbol != "":
		name, _, _ := strings.Cut(r.Symbol, "+0x") // another build has it elsewhere in the variable
		return name
	case r.File != "":
		return numbered(path.Base(r.File))
	}
	return ""
}
