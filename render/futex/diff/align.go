package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// key is what the waits of a group have in common, whatever the report.
type key struct {
	class    class
	program  string // empty if each report has one program only
	variable string
	place    string // of waits for locks without a name
}

func (k key) compare(l key) int {
	return cmp.Or(cmp.Compare(k.class, l.class), cmp.Compare(k.program, l.program), cmp.Compare(k.variable, l.variable), cmp.Compare(k.place, l.place))
}

// group are waits that are compared, in both reports.
type group struct {
	key   key
	sides [2]side
	joins []string // other places that are in it, too
}

// aligner puts waits into groups.
//
// Invariants:
//   - Each wait of a report is in one group, in the rest of its class, or is alien.
//   - What a group is depends on both reports in the same way: with the reports exchanged,
//     the groups have their sides exchanged.
type aligner struct {
	reports    [2]*Report
	dictionary *dictionary
	variables  map[string]bool // whether names of variables are used, by program
	byName     bool            // processes have the names of their programs
	groups     map[key]*group
	alien      [2][classes]side // what cannot be aligned
}

// align returns the groups of two reports in the order of their keys.
func align(reports [2]*Report) *aligner {
	a := &aligner{reports: reports, dictionary: newDictionary(reports), groups: make(map[key]*group)}
	a.byName = true
	for _, r := range reports {
		_ = r.doc.eachRow(func(r *row, _ class) error {
			a.byName = a.byName && (r.Process == nil || r.Process.Program != "")
			return nil
		})
	}
	programs := a.programs()
	a.variables = a.namesUsed(programs)
	for i, r := range reports {
		for c, list := range [][]row{r.doc.Locks, r.doc.Condvars} {
			for k := range list {
				a.row(i, class(c), &list[k], programs)
			}
		}
	}
	a.otherClass()
	a.inlined()
	return a
}

// program returns the program that a row is of, empty if unknown.
func (a *aligner) program(i int, r *row) string {
	if r.Process != nil && a.byName {
		return numbered(base(r.Process.Program))
	}
	for _, s := range a.stacks(i, r) {
		if p := a.dictionary.place(s.Frames); p.program != "" {
			return numbered(p.program)
		}
	}
	if r.Process != nil {
		return numbered(r.Process.Comm)
	}
	return numbered(base(r.Program))
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// programs returns by what names the programs of each report are known in keys. One that
// has another name in each report is the same, if there is no other choice.
func (a *aligner) programs() (names [2]map[string]string) {
	for i, r := range a.reports {
		names[i] = make(map[string]string)
		_ = r.doc.eachRow(func(r *row, _ class) error {
			name := a.program(i, r)
			names[i][name] = name
			return nil
		})
	}
	if len(names[0]) <= 1 && len(names[1]) <= 1 {
		for i := range names {
			for name := range names[i] {
				names[i][name] = ""
			}
		}
		return names
	}
	var only [2][]string
	for i := range names {
		for name := range names[i] {
			if _, ok := names[1-i][name]; !ok {
				only[i] = append(only[i], name)
			}
		}
	}
	if len(only[0]) == 1 && len(only[1]) == 1 {
		both := min(only[0][0], only[1][0]) + "/" + max(only[0][0], only[1][0])
		names[0][only[0][0]], names[1][only[1][0]] = both, both
	}
	return names
}

// namesUsed returns the programs of which both reports have names of variables.
func (a *aligner) namesUsed(programs [2]map[string]string) map[string]bool {
	var has [2]map[string]bool
	for i, r := range a.reports {
		has[i] = make(map[string]bool)
		_ = r.doc.eachRow(func(r *row, _ class) error {
			if r.variable() != "" {
				has[i][programs[i][a.program(i, r)]] = true
			}
			return nil
		})
	}
	out := make(map[string]bool)
	for p := range has[0] {
		out[p] = has[1][p]
	}
	return out
}

// stacks returns the stacks of a row's waits, with those of waits that had not ended if
// there are no others.
func (a *aligner) stacks(i int, r *row) []stack {
	if len(r.WaitStacks) > 0 || r.Address == "" {
		return r.WaitStacks
	}
	var out []stack
	for _, b := range a.reports[i].doc.Blocked {
		if b.Address == r.Address {
			out = append(out, stack{b.Stack, 1, b.Time})
		}
	}
	return out
}

// row puts the waits of a row into groups.
func (a *aligner) row(i int, c class, r *row, programs [2]map[string]string) {
	all := sideOf(r, &a.reports[i].doc)
	stacks := a.stacks(i, r)
	program := programs[i][a.program(i, r)]
	shares, places := a.shares(stacks)
	if name := r.variable(); name != "" && a.variables[program] {
		g := a.group(key{class: c, program: program, variable: name})
		for p, share := range shares {
			all.place(p, share*all.time)
		}
		g.sides[i].add(&all, 1)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		p := places[name]
		part := all
		part.callers, part.lines = p.callers, p.lines
		to := &a.alien[i][c]
		if !p.alien {
			to = &a.group(key{class: c, program: program, place: name}).sides[i]
		}
		to.add(&part, shares[name])
	}
}

// shares returns which part of the time of some stacks is at which place, and the places by
// their names. They sum to 1.
func (a *aligner) shares(stacks []stack) (map[string]float64, map[string]place) {
	shares, places := make(map[string]float64), make(map[string]place)
	sum := 0.0
	for i := range stacks {
		p := a.dictionary.place(stacks[i].Frames)
		if _, ok := places[p.name]; !ok || slices.Compare(p.callers, places[p.name].callers) < 0 {
			places[p.name] = p
		}
		t := float64(stacks[i].Time) + float64(stacks[i].Count) // waits that took no time count too
		shares[p.name] += t
		sum += t
	}
	for name := range shares {
		shares[name] /= sum
		if sum == 0 {
			shares[name] = 1 / float64(len(shares))
		}
	}
	if len(shares) == 0 {
		shares[""] = 1
	}
	return shares, places
}

// group returns the group of a key, made if need be.
func (a *aligner) group(k key) *group {
	g := a.groups[k]
	if g == nil {
		g = &group{key: k}
		a.groups[k] = g
	}
	return g
}

// sorted returns the groups in the order of their keys.
func (a *aligner) sorted() []*group {
	return slices.SortedFunc(maps.Values(a.groups), func(x, y *group) int { return x.key.compare(y.key) })
}

// only returns the side that alone has a group, -1 if both have it.
func (g *group) only() int {
	for i := range g.sides {
		if !g.sides[1-i].used() {
			return i
		}
	}
	return -1
}

// otherClass puts groups together that are locks in one report and none in the other: what
// a futex is used as shows in how it is used, and with few waits that is chance.
func (a *aligner) otherClass() {
	for _, g := range a.sorted() {
		if g.key.class != locks {
			continue
		}
		k := g.key
		k.class = signals
		if h := a.groups[k]; h != nil && g.only() >= 0 && h.only() == 1-g.only() {
			a.join(g, h)
		}
	}
}

// join puts a group into another one.
func (a *aligner) join(g, h *group) {
	for i := range g.sides {
		g.sides[i].add(&h.sides[i], 1)
	}
	g.joins = append(g.joins, h.joins...)
	if h.key.place != "" && h.key.place != g.key.place {
		g.joins = append(g.joins, h.key.place)
	}
	delete(a.groups, h.key)
}

// inlined puts groups of one report together with those of callers, as far as an optimizer
// can have inlined one and no line information shows it.
func (a *aligner) inlined() {
	for _, g := range a.sorted() {
		i := g.only()
		if i < 0 || g.key.place == "" || g.sides[i].lines || len(g.sides[i].callers) < 2 {
			continue
		}
		for _, caller := range g.sides[i].callers[1:] {
			k := g.key
			k.place = caller
			if h := a.groups[k]; h != nil && h.sides[1-i].used() && !(h.sides[0].lines && h.sides[1].lines) {
				a.join(h, g)
				break
			}
		}
	}
}
