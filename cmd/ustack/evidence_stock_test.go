package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestStockTruth holds every raw address of the stock captures against the
// mappings of its process. A name must be that of a mapping that held the
// address, with the file offset there; and an address that one and the same
// file held whenever the poller looked must have its name.
func TestStockTruth(t *testing.T) {
	for _, c := range truthCaptures(t) {
		if !strings.HasPrefix(c.name, "stock/") || c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			spaces := truthReadMaps(t, c.maps)
			named, wrong, missed := 0, 0, 0
			checkFrames(t, append([]string{"--maps", c.maps}, c.args...), func(_ string, tid, k int, f checkFrame) {
				p := spaces.of(tid)
				if p == nil || f.Address == 0 {
					return
				}
				var always string
				fits, versions := false, map[string]bool{}
				for _, m := range p.mappings {
					if addr := uint64(f.Address); m.start <= addr && addr < m.end {
						off := addr - m.start + m.offset
						fits = fits || m.path == f.Path && off == uint64(f.Offset)
						if f.comm != "" && m.comm != f.comm && spaces.processes[tid] == p {
							continue // of another program, before or after
						}
						versions[fmt.Sprintf("%s+%#x", m.path, off)] = true
						if isFilePath(m.path) {
							always = m.path
						}
					}
				}
				switch {
				case f.Path != "" && !isFilePath(f.Path):
					wrong++
					t.Errorf("thread %d, address %#x: named %s+%#x, which is no file", tid, uint64(f.Address), f.Path, uint64(f.Offset))
				case f.Path != "" && !fits:
					wrong++
					t.Errorf("thread %d, address %#x: named %s+%#x, mapped were %v", tid, uint64(f.Address), f.Path, uint64(f.Offset), versions)
				case f.Path != "":
					named++
				case f.Reason == "not-code": // garbage of unwinding, in data
				case len(versions) == 1 && always != "":
					missed++
				}
			})
			t.Logf("%d named, %d wrong, %d in a mapping but not named", named, wrong, missed)
			if named == 0 {
				t.Error("no frame named")
			}
			if missed > 0 {
				t.Errorf("%d frames lie in a mapping that the poller saw, and have no name", missed)
			}
		})
	}
}

// isFilePath reports whether the path of a mapping is that of a file: shared memory
// without a name in a file system has one, too.
func isFilePath(path string) bool {
	return strings.HasPrefix(path, "/") && path != "/dev/zero (deleted)" && !strings.HasPrefix(path, "/SYSV")
}
