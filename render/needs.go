package render

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/tracefs"
	"ustack/tracefs/sorting"
)

// Needs lists the files that frames lack to have names of functions, one a
// line:
//
//	BUILD-ID KIND FRAMES PATH
//
// KIND is what to fetch, in the words of debuginfod: "executable" is the file
// itself, "debuginfo" the separate file with its symbols. A build ID that the
// trace does not have is "-", and so is the path of a file of which only the build
// ID is known.
type Needs struct {
	w      io.Writer
	frames map[need]int64
	ids    map[filemap.BuildID]int64 // frames in files without a path
}

type need struct {
	file *filemap.File
	kind string
}

// NewNeeds returns a renderer that writes to w. The frames must have names.
func NewNeeds(w io.Writer) *Needs {
	return &Needs{w: w, frames: make(map[need]int64), ids: make(map[filemap.BuildID]int64)}
}

// Batch implements Renderer.
func (n *Needs) Batch(h *resolve.Pending) error {
	for i := range h.Records {
		rec := &h.Records[i]
		if rec.Kind != tracefs.KindStack {
			continue
		}
		s := stackAt(h, i)
		n.pathless(&s)
		for k := range s.functions {
			o := &s.out[k]
			if o.File == nil || s.frames[k].Inferred() {
				continue
			}
			if kind := missing(s.functions[k].Name.Reason); kind != "" {
				n.frames[need{o.File, kind}]++
			}
		}
	}
	return nil
}

// maxPathless bounds the build IDs that are kept.
const maxPathless = 1 << 16

// pathless counts the frames in files of which only the build ID is known.
func (n *Needs) pathless(s *stack) {
	for k := range s.frames {
		if f := &s.frames[k]; f.Form == tracefs.FormBuildID && s.out[k].File == nil {
			if id := mapBuildID(s.text, f); n.ids[id] > 0 || len(n.ids) < maxPathless {
				n.ids[id]++
			}
		}
	}
}

// missing returns the kind of file that would name a frame, "" if none would.
func missing(r symbol.Reason) string {
	switch r {
	case symbol.NoFile, symbol.IDMismatch, symbol.Unverified, symbol.Unreadable, symbol.Replaceable:
		return "executable"
	case symbol.Stripped:
		return "debuginfo"
	}
	return ""
}

// isMemory reports whether the kernel calls memory so, not a file: what is
// shared without a name, memfd_create, SysV (do_mmap and mm/shmem.c,
// ipc/shm.c).
func isMemory(path string) bool {
	for _, p := range []string{"/dev/zero", "/memfd:", "/SYSV"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return path == "" || path[0] != '/'
}

// Flush implements Renderer.
func (n *Needs) Flush() error { return nil }

// Close writes the list, what most frames need first.
func (n *Needs) Close(*resolve.Totals) error {
	// Files are distinguished by what the kernel reported about them, so the same
	// one can be there twice.
	type row struct{ id, kind, path string }
	sums := make(map[row]int64)
	for x, frames := range n.frames {
		if isMemory(x.file.Path) {
			continue // nothing to fetch
		}
		id := cmp.Or(symbol.ShortHex(x.file.BuildID), "-")
		sums[row{id, x.kind, x.file.Path}] += frames
	}
	for id, frames := range n.ids {
		sums[row{symbol.ShortHex(id), "executable", "-"}] += frames
	}
	rows := make([]row, 0, len(sums))
	for r := range sums {
		rows = append(rows, r)
	}
	sorting.Func(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a.path, b.path), cmp.Compare(a.id, b.id), cmp.Compare(a.kind, b.kind))
	})
	w := bufio.NewWriter(n.w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s %s %d %s\n", r.id, r.kind, sums[r], escaped(r.path))
	}
	return w.Flush()
}
