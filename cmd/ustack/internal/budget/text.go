package budget

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// slotHead is the first line of a slot, with the checksum and the length of what comes after it.
const slotHead = "ustack.state 1 %08x %d\n"

// field is a line of the state: KEY=NUMBER, or of a text KEY="TEXT".
type field struct {
	key    string
	number *int64
	text   *string
}

// fields returns the lines of the state. Those of a pending report have keys of their own.
func (s *state) fields(p *pending) []field {
	return []field{
		{key: "written", number: &s.Written},
		{key: "day", number: &s.Number},
		{key: "age_ns", number: (*int64)(&s.Age)},
		{key: "up_ns", number: (*int64)(&s.Up)},
		{key: "boot_id", text: &s.Boot},
		{key: "synced_ns", number: &s.Synced},
		{key: "synced_age_ns", number: (*int64)(&s.WallAge)},
		{key: "synced_boot_id", text: &s.WallBoot},
		{key: "bytes", number: &s.Bytes},
		{key: "reports", number: &s.Reports},
		{key: "refused", number: &s.Refused},
		{key: "duplicates", number: &s.Duplicates},
		{key: "pending.reserved", number: &p.Reserved},
		{key: "pending.day", number: &p.Day},
		{key: "pending.refused", number: &p.Counts.Refused},
		{key: "pending.duplicates", number: &p.Counts.Duplicates},
		{key: "pending.cause", text: &p.Cause},
		{key: "pending.partial", text: &p.Partial},
		{key: "pending.name", text: &p.Name},
		{key: "pending.device", number: &p.ID.Device},
		{key: "pending.inode", number: &p.ID.Inode},
		{key: "pending.born_ns", number: &p.ID.Born},
	}
}

// text returns a slot: less than slotSize, as all its texts are bounded.
func (s *state) text() []byte {
	p := s.Pending
	if p == nil {
		p = new(pending)
	}
	var b []byte
	for _, f := range s.fields(p) {
		switch {
		case f.text != nil && *f.text != "":
			b = append(strconv.AppendQuote(append(append(b, f.key...), '='), *f.text), '\n')
		case f.number != nil && *f.number != 0:
			b = append(strconv.AppendInt(append(append(b, f.key...), '='), *f.number, 10), '\n')
		}
	}
	for _, c := range s.Causes {
		b = append(strconv.AppendQuote(append(b, causeKey...), c), '\n')
	}
	return append(fmt.Appendf(nil, slotHead, crc32.ChecksumIEEE(b), len(b)), b...)
}

// parse reads a slot, and reports whether it is valid.
func (s *state) parse(slot []byte) bool {
	head, rest, _ := bytes.Cut(slot, []byte("\n"))
	length := head[bytes.LastIndexByte(head, ' ')+1:]
	if n, err := strconv.ParseUint(string(length), 10, 31); err != nil || n > uint64(len(rest)) {
		return false
	} else if rest = rest[:n]; string(head)+"\n" != fmt.Sprintf(slotHead, crc32.ChecksumIEEE(rest), n) {
		return false
	}
	var p pending
	fields := s.fields(&p)
	for line := range strings.Lines(string(rest)) {
		if !s.take(fields, strings.TrimSuffix(line, "\n")) {
			return false
		}
	}
	if p.Reserved > 0 {
		s.Pending = &p
	}
	return s.valid()
}

// causeKey begins the line of each cause.
const causeKey = "cause="

// take takes a line into its field.
func (s *state) take(fields []field, line string) bool {
	if text, ok := strings.CutPrefix(line, causeKey); ok {
		c, err := strconv.Unquote(text)
		s.Causes = append(s.Causes, c)
		return err == nil && len(c) <= mostCause && len(s.Causes) <= mostCauses
	}
	key, value, _ := strings.Cut(line, "=")
	for _, f := range fields {
		if f.key != key {
			continue
		}
		var err error
		if f.text != nil {
			*f.text, err = strconv.Unquote(value)
		} else {
			*f.number, err = strconv.ParseInt(value, 10, 64)
		}
		return err == nil
	}
	return false
}

// mostText bounds a text of the state: a path, or the ID of a boot.
const mostText = 2048

// valid reports whether all fields have values that write can have written.
func (s *state) valid() bool {
	p := s.Pending
	return len(s.Boot)+len(s.WallBoot) <= mostText && s.day.valid() && s.Written > 0 && s.Bytes >= 0 && s.Reports >= 0 && s.Counts.valid() &&
		(p == nil || p.Counts.valid() && len(p.Cause) <= mostCause)
}

// valid does the same of counts.
func (c *Counts) valid() bool { return c.Refused >= 0 && c.Duplicates >= 0 }
