package cause

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// AppendStack adds the frames of a stack, innermost first, until there are MostFrames. text holds
// the frames' lines; attributions is parallel to frames. ok is false if one of them has no file:
// code of a JIT compiler has no place that is the same in all processes, and what it calls is
// the same for all of it.
func AppendStack(list []Frame, text []byte, frames []tracefs.Frame, attributions []resolve.Attribution) (_ []Frame, ok bool) {
	for i := range frames {
		if len(list) >= MostFrames {
			break
		}
		f, a := &frames[i], &attributions[i]
		if a.File == nil {
			return list, false
		}
		if !a.File.Application() {
			continue
		}
		offset := a.Offset
		if !a.HasOffset {
			offset = f.Address(text)
		}
		how, _ := f.Unwound()
		list = append(list, FrameOf(FileOf(a.File), int64(offset), i == 0 || f.Inferred() || how == tracefs.BySignal))
	}
	return list, true
}

// String returns a cause as Parse reads it: the kind, and the frames of waiter and owner in base64
// (RFC 4648, for URLs), eight bytes each, little-endian.
func (c *Cause) String() string {
	b := append(make([]byte, 0, mostText), c.Kind...)
	for _, frames := range [][]Frame{c.Waiter, c.Owner} {
		var raw []byte
		for _, f := range frames[:min(len(frames), MostFrames)] {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(f))
		}
		b = base64.RawURLEncoding.AppendEncode(append(b, ' '), raw)
	}
	return string(b)
}

// mostText is how long a text of a cause is usually at most.
const mostText = 160

// Parse reads the text of a cause.
func Parse(text string) (*Cause, error) {
	words := strings.Split(text, " ")
	const parts = 3
	if len(words) != parts {
		return nil, fmt.Errorf("reading a cause: it has %d parts", len(words))
	}
	c := &Cause{Kind: words[0]}
	for i, to := range []*[]Frame{&c.Waiter, &c.Owner} {
		raw, err := base64.RawURLEncoding.DecodeString(words[i+1])
		if err != nil || len(raw)%8 != 0 || len(raw)/8 > MostFrames {
			return nil, fmt.Errorf("reading a cause: wrong frames: %.100q", words[i+1])
		}
		for ; len(raw) > 0; raw = raw[8:] {
			*to = append(*to, Frame(binary.LittleEndian.Uint64(raw)))
		}
	}
	return c, nil
}
