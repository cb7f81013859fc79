package procmap

// names keeps one string for each name, so that a name that was seen before
// costs no memory. A machine has few names; when a hostile process makes many,
// all are forgotten (not freed: mappings may still use them).
type names struct {
	known map[string]string
	bytes int
}

// Bounds on what is kept of names.
const (
	maxNames     = 1 << 17
	maxNameBytes = 16 << 20
)

func (n *names) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n.known[string(b)]; ok {
		return s
	}
	if n.known == nil || len(n.known) >= maxNames || n.bytes >= maxNameBytes {
		n.known, n.bytes = make(map[string]string), 0
	}
	s := string(b)
	n.known[s] = s
	n.bytes += len(s)
	return s
}
