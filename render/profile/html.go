package profile

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ustack/render"
)

// page is the page, with profileMark in place of the data.
//
//go:embed flame.html
var page string

const profileMark = "@PROFILE@"

// HTML writes a page that needs nothing else: a flame graph to zoom into and
// to search in, by mouse and by keyboard. Weights are counts of stacks, or the
// time of waits.
func HTML(w io.Writer, p *Profile, symbols render.Symbols) error {
	before, after, _ := strings.Cut(page, profileMark)
	t := newTree(p, symbols)
	out := bufio.NewWriter(w)
	out.WriteString(before)
	fmt.Fprintf(out, `{"title":%q,"unit":%q,"names":[`, p.unit.title(), p.unit.types()[len(p.unit.types())-1].Unit)
	for i, name := range t.names {
		// json.Marshal escapes what could end the script.
		text, err := json.Marshal(name)
		if err != nil {
			return fmt.Errorf("encoding the name %q: %w", name, err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(text)
	}
	out.WriteString("],\n\"nodes\":[")
	t.number(func(i, number, parent int32) {
		if number > 0 {
			out.WriteString(",\n")
		}
		fmt.Fprintf(out, "[%d,%d,%d]", t.nodes[i].name, parent, p.weight(t.nodes[i].total))
	})
	out.WriteString("]}")
	out.WriteString(after)
	return out.Flush() // which has the first error of all of them
}
