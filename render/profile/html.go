//go:build !device

package profile

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"strconv"

	"ustack/render/page"
	"ustack/render/plainjson"
)

var (
	//go:embed flame.css
	flameStyle string
	//go:embed flame.html
	flameBody string
	//go:embed flame.js
	flameScript string
)

// HTML writes a page with a flame graph. Weights are counts of stacks, or the time
// of waits.
func HTML(w io.Writer, p *Profile) error {
	part, data := Flame(p)
	part.Body = "<h1>ustack</h1>\n" + part.Body
	return page.Write(w, "ustack: flame graph", []page.Part{part}, []page.Data{data})
}

// Flame returns a flame graph, to zoom into and to search in, by mouse and by
// keyboard, as a part of a page. If the page has samples of one Row chosen, it
// shows those.
func Flame(p *Profile) (page.Part, page.Data) {
	part := page.Part{Style: flameStyle, Body: flameBody, Script: flameScript}
	return part, page.Data{ID: "profile", Write: p.writeTree}
}

// writeTree writes what the flame graph draws, see flame.js.
func (p *Profile) writeTree(out *bufio.Writer) error {
	t := newTree(p)
	fmt.Fprintf(out, `{"title":%q,"unit":%q,"names":[`, p.title(), p.unit.types()[len(p.unit.types())-1].Unit)
	for i, name := range t.names {
		text, err := plainjson.Marshal(name)
		if err != nil {
			return fmt.Errorf("encoding the name %q: %w", name, err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(text)
	}
	out.WriteString("],\n\"nodes\":[")
	numbers := make([]int32, len(t.nodes))
	t.number(func(i, number, parent int32) {
		if number > 0 {
			out.WriteString(",\n")
		}
		numbers[i] = number
		writeTriple(out, int64(t.nodes[i].name), int64(parent), p.weight(t.nodes[i].total))
	})
	out.WriteString("],\n\"parts\":[")
	first := true
	for i := range p.samples {
		s := &p.samples[i]
		row := p.of(s).Row
		if row == 0 || p.weight(s.Value) == 0 {
			continue
		}
		if !first {
			out.WriteString(",\n")
		}
		first = false
		writeTriple(out, int64(numbers[t.ends[i]]), int64(row-1), p.weight(s.Value))
	}
	out.WriteString("]}")
	return nil // of the errors of out the first one stays
}

func writeTriple(out *bufio.Writer, x, y, z int64) {
	b := append(out.AvailableBuffer(), '[')
	b = append(strconv.AppendInt(b, x, 10), ',')
	b = append(strconv.AppendInt(b, y, 10), ',')
	b = strconv.AppendInt(b, z, 10)
	out.Write(append(b, ']'))
}
