package perfdata

import "fmt"

// mounts are the mount namespaces that processes were in (PERF_RECORD_NAMESPACES, perf record
// --namespaces): the paths of a process are as it sees them.
type mounts map[namespace]bool

// namespace is one, by the device and the inode of its file in nsfs.
type namespace struct{ dev, inode uint64 }

// The namespaces of a record are in the order of their indices (include/uapi/linux/perf_event.h);
// a kernel may add some.
const (
	mountIndex    = 5
	maxNamespaces = 64
	maxMounts     = 1 << 16
)

// add adds those of a record without its trailer. It reports false if the record is malformed.
func (m *mounts) add(o order, body []byte) bool {
	v := fields{order: o, rest: body}
	v.word64() // process and thread
	n := v.word64()
	if n > maxNamespaces {
		return false
	}
	for i := range n {
		ns := namespace{v.word64(), v.word64()}
		if i != mountIndex || v.bad || ns == (namespace{}) || len(*m) >= maxMounts {
			continue
		}
		if *m == nil {
			*m = make(mounts)
		}
		(*m)[ns] = true
	}
	return !v.bad
}

// note is a remark, "" if all processes saw the same paths.
func (m mounts) note() string {
	if len(m) < 2 {
		return ""
	}
	return fmt.Sprintf("processes were in %d mount namespaces (containers): a path is as its process saw it", len(m))
}
