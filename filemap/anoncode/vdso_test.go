//go:build linux

package anoncode

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/tracefs"
)

// TestVDSO holds the functions of our vDSO against what the standard library
// reads of it.
func TestVDSO(t *testing.T) {
	memory, err := readVDSO()
	if err != nil {
		cannot(t, "%v", err)
	}
	k, err := symbolize.OpenVDSO(memory)
	if err != nil {
		t.Fatal(err)
	}
	x, err := elf.NewFile(bytes.NewReader(memory))
	if err != nil {
		t.Fatal(err)
	}
	list, err := x.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	note := x.Section(".note.gnu.build-id")
	if note == nil {
		note = x.Section(".note")
	}
	if raw, err := note.Data(); err != nil || k.ID().IsZero() || !bytes.Contains(raw, idBytes(k)) {
		t.Errorf("build ID %s is not in %x (%v)", k.ID().Hex(), raw, err)
	}
	named := 0
	for offset := range uint64(len(memory)) {
		var want []string
		for _, s := range list {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value <= offset && offset-s.Value < s.Size {
				want = append(want, s.Name)
			}
		}
		c := k.Code(offset, true)
		if (c != nil) != (len(want) > 0) || c != nil && !slices.Contains(want, c.Function) {
			t.Fatalf("%#x is %+v, want one of %q", offset, c, want)
		}
		if c == nil {
			continue
		}
		named++
		if strings.HasPrefix(c.Function, "__") && slices.Contains(want, strings.TrimPrefix(c.Function, "__vdso_")) {
			t.Errorf("%#x is %s, of %q", offset, c.Function, want)
		}
		if r := k.Code(offset, false); r != nil && r != k.Code(offset-1, true) {
			t.Errorf("%#x: a call before it is in %+v", offset, r)
		}
	}
	if named < 64 || k.Code(uint64(len(memory)), true) != nil || k.Code(1<<63, false) != nil || k.Code(0, false) != nil {
		t.Errorf("%d places have names", named)
	}
}

// idBytes is a vDSO's build ID as it stands in the file.
func idBytes(k *symbolize.Kernel) []byte {
	id := k.ID()
	padded := id.Padded()
	return padded[:id.Len()]
}

// TestVDSODamaged: whatever is in memory, there is an answer or an error.
func TestVDSODamaged(t *testing.T) {
	memory, err := readVDSO()
	if err != nil {
		cannot(t, "%v", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := bytes.Clone(memory[:1+random.IntN(len(memory))])
		for range random.IntN(20) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		k, err := symbolize.OpenVDSO(b)
		if err != nil {
			continue
		}
		for range 20 {
			offset := random.Uint64N(uint64(len(b)) + 8)
			if c := k.Code(offset, true); c != nil && c.Start > offset {
				t.Errorf("%#x is in %+v", offset, c)
			}
		}
	}
}

// TestAttributeVDSO: only places in what the kernel calls [vdso] have names, of
// programs of 64 bits.
func TestAttributeVDSO(t *testing.T) {
	k, err := OwnVDSO()
	if err != nil {
		cannot(t, "%v", err)
	}
	offset := uint64(0)
	for ; k.Code(offset, true) == nil; offset++ {
	}
	const base = 0x7f0000000000
	vdso, other := &filemap.Memory{Name: "[vdso]", Exec: true}, &filemap.Memory{Name: "[uprobes]", Exec: true}
	at := func(base uint64, form tracefs.Form) tracefs.Frame {
		return tracefs.Frame{Form: form, Addr: base + offset, HasAddr: true}
	}
	in := func(m *filemap.Memory, has bool) resolve.Attribution {
		return resolve.Attribution{Reason: filemap.VDSO, Memory: m, Offset: offset, HasOffset: has}
	}
	s := resolve.Query{
		Frames: []tracefs.Frame{at(base, tracefs.FormPlain), at(base, tracefs.FormPlain), at(0xf7f00000, tracefs.FormPlain),
			at(base, tracefs.FormPlain), at(base, tracefs.FormIdentifier), at(base, tracefs.FormPlain)},
		Attributions: []resolve.Attribution{in(vdso, true), in(vdso, true), in(vdso, true), in(other, true), in(vdso, true), in(nil, false)},
	}
	New(Options{VDSO: k}).Attribute(&s)
	for i, o := range s.Attributions {
		if named := o.Memory != nil && o.Memory.Code != nil; named != (i == 0) {
			t.Errorf("frame %d: %+v", i, o.Memory)
		}
	}
	if m := s.Attributions[0].Memory; m.Name != "[vdso]" || m.Code != k.Code(offset, true) || vdso.Code != nil {
		t.Errorf("%+v", m)
	}
}
