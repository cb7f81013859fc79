package tables

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"ustack/render/framejson"
	"ustack/render/stackset"
)

// stackRow is a stack with its number.
type stackRow struct {
	id     int64
	frames []framejson.Frame
	cut    bool
	end    string
}

func stacksTable() *table[stackRow] {
	type row = stackRow
	return define("stacks", "User stacks, each once.",
		column[row]{"id", Integer, "its number, for the columns named stack", func(r *row) any { return r.id }},
		column[row]{"depth", Integer, "how many frames it has", func(r *row) any { return int64(len(r.frames)) }},
		column[row]{"cut", Integer, "1 if there were more", func(r *row) any { return truth(r.cut) }},
		column[row]{"end", Text, "why it ends, if that is known", func(r *row) any { return word(r.end) }},
		column[row]{"top", Text, "its innermost frame: a function, else file+offset, else [reason]", func(r *row) any { return word(say(&r.frames[0])) }},
		column[row]{"folded", Text, "all frames, the outermost first, with semicolons between them", func(r *row) any { return word(folded(r.frames)) }},
	)
}

// say returns a frame in a word.
func say(f *framejson.Frame) string {
	switch {
	case f.Function != "":
		return f.Function
	case f.Path != "":
		return f.Path + "+" + f.Offset
	case f.Text != "":
		return f.Text
	}
	return "[" + f.Reason + "]"
}

// folded returns a stack as flame graphs have it.
func folded(frames []framejson.Frame) string {
	var b strings.Builder
	for i := range frames {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(strings.ReplaceAll(say(&frames[len(frames)-1-i]), ";", ","))
	}
	return b.String()
}

// frameRow is a frame of a stack.
type frameRow struct {
	*framejson.Frame
	stack, depth int64
}

// inlined returns the functions inlined at the frame, innermost first.
func (r *frameRow) inlined() string {
	var list []string
	for _, c := range r.Inlined {
		one := c.Function
		if c.File != "" {
			one += fmt.Sprintf(" (%s:%d)", c.File, c.Line)
		}
		list = append(list, one)
	}
	return strings.Join(list, ", ")
}

func framesTable() *table[frameRow] {
	type row = frameRow
	return define("frames", "Frames of the stacks: a file with an offset, or the reason why there is none.",
		column[row]{"stack", Integer, "stacks.id", func(r *row) any { return r.stack }},
		column[row]{"depth", Integer, "from 0, the innermost", func(r *row) any { return r.depth }},
		column[row]{"file", Text, "the file, as the process saw it", func(r *row) any { return word(r.Path) }},
		column[row]{"build_id", Text, "its build ID, in hex", func(r *row) any { return word(r.BuildID) }},
		column[row]{"offset", Text, "the offset in the file, in hex", func(r *row) any { return word(r.Offset) }},
		column[row]{"trust", Text, "how the file is known: verified, announced, inferred, late or claimed", func(r *row) any { return word(r.Trust) }},
		column[row]{"reason", Text, "why it has no file", func(r *row) any { return word(r.Reason) }},
		column[row]{"address", Text, "the address as the trace has it, without a file", func(r *row) any { return word(r.Address) }},
		column[row]{"function", Text, "the function", func(r *row) any { return word(r.Function) }},
		column[row]{"function_offset", Text, "the offset in that, in hex", func(r *row) any { return word(r.FunctionOffset) }},
		column[row]{"source", Text, "the source file", func(r *row) any { return word(r.File) }},
		column[row]{"source_line", Integer, "the line in that", func(r *row) any { return some(r.Line) }},
		column[row]{"inlined", Text, "functions inlined there, innermost first", func(r *row) any { return word(r.inlined()) }},
		column[row]{"no_function", Text, "why it has no function", func(r *row) any { return word(r.NoSymbol) }},
		column[row]{"inferred", Integer, "1 if the kernel has left it out, and ustack found it", func(r *row) any { return truth(r.Inferred) }},
		column[row]{"how", Text, "how ustack has unwound it, if it has", func(r *row) any { return word(r.How) }},
	).by("stack")
}

// stackRows numbers stacks and sends them, each once, with their frames. Their functions
// must have been named.
//
// Invariant: the numbers from 1 to last have been sent, each once, and no others.
type stackRows struct {
	to     Sink
	stacks *table[stackRow]
	frames *table[frameRow]
	// known has the numbers by what the stacks are made of, seen by stack.
	known map[[sha256.Size]byte]int64
	seen  map[*stackset.Stack]int64
	last  int64
}

func newStackRows(to Sink) *stackRows {
	return &stackRows{to: to, stacks: stacksTable(), frames: framesTable(), known: make(map[[sha256.Size]byte]int64), seen: make(map[*stackset.Stack]int64)}
}

// all sends the stacks of a set, which get the numbers that they have there, plus one.
func (r *stackRows) all(set *stackset.Set) error {
	for i := range set.Len() {
		row, sum, err := rowOf(set.Get(int32(i)))
		if err != nil {
			return err
		}
		r.last++
		row.id = r.last
		r.known[sum] = r.last
		if err := r.send(row); err != nil {
			return err
		}
	}
	return nil
}

// number returns the number of a stack, 0 for nil.
func (r *stackRows) number(s *stackset.Stack) (int64, error) {
	if s == nil {
		return 0, nil
	}
	if n, ok := r.seen[s]; ok {
		return n, nil
	}
	row, sum, err := rowOf(s)
	if err != nil {
		return 0, err
	}
	n, ok := r.known[sum]
	if !ok {
		r.last++
		n = r.last
		row.id, r.known[sum] = n, n
		if err := r.send(row); err != nil {
			return 0, err
		}
	}
	r.seen[s] = n
	return n, nil
}

// rowOf returns the row of a stack, without its number, and the sum of what it is made of.
func rowOf(s *stackset.Stack) (*stackRow, [sha256.Size]byte, error) {
	row := &stackRow{frames: framejson.Frames(s), cut: s.Cut, end: s.EndWord()}
	text, err := json.Marshal(framejson.StackOf(s, ""))
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("comparing stacks: %w", err)
	}
	return row, sha256.Sum256(text), nil
}

// send sends a new stack.
func (r *stackRows) send(row *stackRow) error {
	if err := r.stacks.put(r.to, row); err != nil {
		return err
	}
	for i := range row.frames {
		if err := r.frames.put(r.to, &frameRow{&row.frames[i], row.id, int64(i)}); err != nil {
			return err
		}
	}
	return nil
}
