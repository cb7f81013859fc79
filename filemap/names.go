package filemap

// Names keeps one string for each name (of a file, of a task), so that a name
// that was seen before costs no memory. A machine has few names; when a hostile
// process or trace makes many, all are forgotten (not freed: they may still be
// in use). The zero value keeps none yet.
type Names struct {
	known map[string]string
	bytes int
}

// Bounds on the names that are kept.
const (
	maxNames     = 1 << 17
	maxNameBytes = 16 << 20
)

// Intern returns the name as a string.
func (n *Names) Intern(name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if s, ok := n.known[string(name)]; ok {
		return s
	}
	if n.known == nil || len(n.known) >= maxNames || n.bytes >= maxNameBytes {
		n.known, n.bytes = make(map[string]string), 0
	}
	s := string(name)
	n.known[s] = s
	n.bytes += len(s)
	return s
}
