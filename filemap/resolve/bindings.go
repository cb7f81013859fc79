package resolve

import "ustack/filemap"

// bindings is the files of the trace, and which of them each identifier means.
//
// Invariants: no more identifiers are known than the table may have, and each of their
// files is one of files.
type bindings struct {
	limit int // of the table
	files *filemap.Files
	table *filemap.Table
	queue *queue
}

// maxFileBytes bounds the memory of the set of files; it is far above what a
// machine runs.
const maxFileBytes = 8 << 20

// bound drops files that no identifier means any more, when there are
// too many.
func (b *bindings) bound() {
	if b.files.Bytes() < maxFileBytes {
		return
	}
	b.table.Forget()
	keep := b.table.Files()
	for _, h := range b.queue.list {
		for i := range h.Attributions {
			keep[h.Attributions[i].File] = true
		}
	}
	b.files.Retain(keep)
}
