package unwind

import (
	"debug/elf"

	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/table"
)

const arm64 = elf.EM_AARCH64

// isPlain reports whether frame pointers are to be used where no table is: in
// Go's code, and in files whose code keeps them and has hardly any table but for
// the start files of the compiler. What a file with tables leaves out is written
// by hand and has its own ways with registers.
func (f *File) isPlain() bool {
	if !f.judged {
		f.judged = true
		f.plain = f.image.IsGo() || f.hardlyCovered() && frames.Judge(frames.Count(f.image, nil)) == frames.Kept
	}
	return f.plain
}

// hardlyCovered reports whether tables are about less than half of the code.
func (f *File) hardlyCovered() bool {
	code, has := uint64(0), uint64(0)
	for i := range f.image.Sections {
		if s := &f.image.Sections[i]; s.Flags&elf.SHF_EXECINSTR != 0 {
			code += s.Size
		}
	}
	for _, t := range f.tables {
		t.Functions(func(s table.Span) bool {
			has += s.End - s.Start
			return has < code
		})
	}
	return has < code/2
}
