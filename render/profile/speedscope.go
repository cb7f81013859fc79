//go:build !device

package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"

	"ustack/render/plainjson"
)

// Speedscope writes a file for https://www.speedscope.app: one sampled
// profile, in which the outermost frame is the thread's name. Weights are
// counts of stacks, or the time of waits.
func Speedscope(w io.Writer, p *Profile) error {
	t := newTree(p)
	s := &speedscope{t: t, out: bufio.NewWriter(w), frames: make([]int32, len(t.names))}
	s.out.WriteString(`{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"ustack","activeProfileIndex":0,` + "\n" + `"shared":{"frames":[`)
	if err := s.names(); err != nil {
		return err
	}
	title, unit := p.title(), "none"
	if p.unit == Waits {
		unit = "nanoseconds"
	}
	fmt.Fprintf(s.out, `]},`+"\n"+`"profiles":[{"type":"sampled","name":%q,"unit":%q,"startValue":0,"endValue":%d,`, title, unit, p.weight(t.nodes[0].total))
	s.out.WriteString("\n" + `"samples":[`)
	s.list(p, s.path)
	s.out.WriteString("],\n" + `"weights":[`)
	s.list(p, func(b []byte, _ []int32, weight int64) []byte { return strconv.AppendInt(b, weight, 10) })
	s.out.WriteString("]}]}\n")
	return s.out.Flush() // which has the first error of all of them
}

// title is what pictures of a profile say that it shows.
func (p *Profile) title() string { return cmp.Or(p.name, p.unit.title()) }

// title says what a picture shows.
func (u Unit) title() string {
	switch u {
	case Samples:
		return "stacks"
	case Waits:
		return "waits for locks"
	}
	return "waits for locks, in ticks"
}

type speedscope struct {
	t      *tree
	out    *bufio.Writer
	frames []int32 // by name: number of the frame
	buf    []byte
}

// names writes the frames: one a name, without the root of all.
func (s *speedscope) names() error {
	const root = 0
	for i, name := range s.t.names[root+1:] {
		text, err := plainjson.Marshal(name)
		if err != nil {
			return fmt.Errorf("encoding the name %q: %w", name, err)
		}
		if i > 0 {
			s.out.WriteByte(',')
		}
		fmt.Fprintf(s.out, "\n"+`{"name":%s}`, text)
		s.frames[i+root+1] = int32(i)
	}
	return nil
}

// list writes an element for each place where stacks end.
func (s *speedscope) list(p *Profile, element func(b []byte, path []int32, weight int64) []byte) {
	first := true
	_ = s.t.walk(func(path []int32, self Value) error {
		weight := p.weight(self)
		if weight == 0 {
			return nil
		}
		s.buf = s.buf[:0]
		if !first {
			s.buf = append(s.buf, ',')
		}
		first = false
		s.buf = element(s.buf, path, weight)
		_, err := s.out.Write(s.buf)
		return err
	})
}

func (s *speedscope) path(b []byte, path []int32, _ int64) []byte {
	b = append(b, '[')
	for i, n := range path {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s.frames[s.t.nodes[n].name]), 10)
	}
	return append(b, ']')
}
