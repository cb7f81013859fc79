package render

import (
	"ustack/filemap"
	"ustack/render/cache"
)

// kept is what a renderer keeps of how it has written stacks, names and files.
type kept struct {
	results cache.Texts // stacks, by the number of their Result
	names   cache.Texts // of functions, by their number
	files   []keptFile  // by the file's Key
}

// keptFile is a file as the renderer writes it.
type keptFile struct {
	file *filemap.File
	text []byte
}

const (
	// keepAtMost bounds the rendered stacks that are kept, in bytes, keptNames the
	// names.
	keepAtMost = 8 << 20
	keptNames  = 4 << 20

	resultBits = 14 // parsers have half as many templates
	nameBits   = 13
	fileBits   = 10
)

func newKept() kept {
	return kept{results: cache.NewTexts(resultBits, keepAtMost), names: cache.NewTexts(nameBits, keptNames), files: make([]keptFile, 1<<fileBits)}
}

// file returns the place of a file; the text in it is nil if it is to be made.
func (k *kept) file(f *filemap.File) *keptFile {
	place := &k.files[f.Key()&(1<<fileBits-1)]
	if place.file != f {
		*place = keptFile{file: f}
	}
	return place
}
