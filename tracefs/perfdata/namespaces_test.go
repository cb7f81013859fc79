package perfdata

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
)

// TestNamespaces: the mount namespaces are counted, in both byte orders; a record that is too
// short is left out and reported.
func TestNamespaces(t *testing.T) {
	for _, big := range []bool{false, true} {
		for _, c := range []struct {
			inodes []uint64
			short  bool
			note   string
		}{
			{[]uint64{5, 5}, false, ""},
			{[]uint64{5, 6, 5, 7}, false, "in 3 mount namespaces"},
			{[]uint64{5, 6}, true, "in 2 mount namespaces"},
			{nil, false, ""},
		} {
			m := newModel(3, big)
			m.comm(7)
			for _, inode := range c.inodes {
				links := make([]uint64, 2*7)
				links[2*mountIndex], links[2*mountIndex+1] = 4, inode
				links[1] = inode + 100 // the network's: another one each
				m.Add(unix.PERF_RECORD_NAMESPACES, 0, int32(7), int32(7), uint64(7), links, m.trailer(7, 0, 1))
			}
			if c.short {
				m.Add(unix.PERF_RECORD_NAMESPACES, 0, int32(7), int32(7), uint64(7), make([]uint64, 13), m.trailer(7, 0, 1))
				m.Add(unix.PERF_RECORD_NAMESPACES, 0, int32(7), int32(7), uint64(1<<61), m.trailer(7, 0, 1))
			}
			data := m.Write()
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			s := f.Source(binary.Options{}, nil)
			var b tracefs.Batch
			for err == nil {
				err = s.Next(&b)
			}
			if c.short != (err != io.EOF) || c.short && !strings.Contains(err.Error(), "2 records are left out") {
				t.Errorf("%v: %v", c, err)
			}
			if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "mount") {
				t.Errorf("%v: %s", c, notes)
			}
		}
	}
}
