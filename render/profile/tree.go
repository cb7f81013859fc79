package profile

import (
	"cmp"
	"strings"

	"ustack/tracefs/sorting"
	"ustack/tracefs/text"
)

// tree is a profile with the samples of the same names put together, and the
// outermost function of each thread's name as its root: the form that is
// drawn.
type tree struct {
	names []string
	byTxt map[string]int32
	nodes []node
	child map[pair]int32 // of a node, by the number of its name
	ends  []int32        // by sample: the node where its stack ends
}

// node is a function in the place of a tree. Node 0 is the root of all.
type node struct {
	name     int32
	children []int32
	self     Value // of stacks that end here
	total    Value
}

// maxNodes is about how many nodes a tree has at most: many threads can have
// the same stacks under different names. Samples beyond are others.
const maxNodes = 1 << 19

// newTree makes the tree of a profile: threads' names, and below them the
// functions, outermost first. Nodes are in order of name.
func newTree(p *Profile) *tree {
	t := &tree{byTxt: make(map[string]int32), nodes: make([]node, 1), child: make(map[pair]int32)}
	t.name("")
	n := newNames(p)
	ends, comms := make(map[pair]int32), make(map[string]int32) // of what is drawn the same
	t.ends = make([]int32, 0, len(p.samples))
	for i := range p.samples {
		s := &p.samples[i]
		comm := p.of(s).Comm
		if _, ok := comms[comm]; !ok {
			comms[comm] = int32(len(comms))
		}
		key := pair{s.stack, comms[comm]}
		at, ok := ends[key]
		if !ok {
			at = t.path(p, n, s)
			ends[key] = at
		}
		t.ends = append(t.ends, at)
		t.nodes[at].self.Count += s.Count
		t.nodes[at].self.Time += s.Time
	}
	// A child comes after its parent.
	for i := len(t.nodes) - 1; i >= 0; i-- {
		nd := &t.nodes[i]
		nd.total.Count += nd.self.Count
		nd.total.Time += nd.self.Time
		for _, c := range nd.children {
			nd.total.Count += t.nodes[c].total.Count
			nd.total.Time += t.nodes[c].total.Time
		}
		sorting.Func(nd.children, func(a, b int32) int {
			return cmp.Compare(t.text(a), t.text(b))
		})
	}
	return t
}

// path returns the node where a sample's stack ends.
func (t *tree) path(p *Profile, n *names, s *sample) int32 {
	if s.stack == otherStacks || len(t.nodes) >= maxNodes {
		return t.below(0, others)
	}
	at := t.below(0, commName(p.of(s).Comm))
	st := &p.stacks[s.stack]
	if st.incomplete() {
		at = t.below(at, truncated)
	}
	for i := len(st.frames) - 1; i >= 0; i-- {
		fn := st.function(i)
		if fn != nil && fn.Skipped != nil {
			at = t.below(at, fn.Skipped.Name.Function+text.InferredMark)
		}
		lines := n.of(&st.frames[i], fn)
		for k := len(lines) - 1; k >= 0; k-- {
			at = t.below(at, lines[k].name)
		}
	}
	if len(st.frames) == 0 {
		at = t.below(at, noFrames)
	}
	return at
}

// commName returns a thread's name in a picture.
func commName(comm string) string {
	if comm == "" {
		return "[no name]"
	}
	return comm
}

// below returns the child of a node with a name.
func (t *tree) below(parent int32, text string) int32 {
	e := pair{parent, t.name(text)}
	if i, ok := t.child[e]; ok {
		return i
	}
	i := int32(len(t.nodes))
	t.nodes = append(t.nodes, node{name: e[1]})
	t.nodes[parent].children = append(t.nodes[parent].children, i)
	t.child[e] = i
	return i
}

func (t *tree) name(text string) int32 {
	if i, ok := t.byTxt[text]; ok {
		return i
	}
	if clean := valid(text); clean != text {
		return t.name(clean)
	}
	text = strings.Clone(text)
	i := int32(len(t.names))
	t.names = append(t.names, text)
	t.byTxt[text] = i
	return i
}

func (t *tree) text(node int32) string { return t.names[t.nodes[node].name] }

// walk calls f for each node that stacks end at, in order, with the path to
// it, the root of all left out.
func (t *tree) walk(f func(path []int32, self Value) error) error {
	return t.walkFrom(0, nil, f)
}

func (t *tree) walkFrom(i int32, path []int32, f func(path []int32, self Value) error) error {
	if nd := &t.nodes[i]; nd.self != (Value{}) {
		if err := f(path, nd.self); err != nil {
			return err
		}
	}
	for _, c := range t.nodes[i].children {
		if err := t.walkFrom(c, append(path, c), f); err != nil {
			return err
		}
	}
	return nil
}

// number calls f for each node in order, its parent before it, with numbers
// that count from 0 in that order; the root of all is its own parent.
func (t *tree) number(f func(i, number, parent int32)) {
	next := int32(0)
	var below func(i, parent int32)
	below = func(i, parent int32) {
		number := next
		next++
		f(i, number, parent)
		for _, c := range t.nodes[i].children {
			below(c, number)
		}
	}
	below(0, 0)
}
