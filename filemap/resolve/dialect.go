package resolve

import "fmt"

// Dialect is a way of the kernel to write user frames (FORMATS section 2).
type Dialect uint8

// The dialects. Auto recognises all by themselves; only Plain and Offset look
// alike and may have to be forced.
const (
	Auto     Dialect = iota
	Plain            // D0: virtual addresses
	Offset           // D1: offsets in files, and no word about which file
	Inode            // D2, D3: inode and device
	Hash             // D4
	Resolved         // D5: path and build ID
	Stock            // <user stack trace>
)

var dialectNames = [...]string{"auto", "plain", "offset", "inode", "hash", "resolved", "stock"}

// String returns the name as used in flags and outputs.
func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect reads a name, or D0 to D5.
func ParseDialect(name string) (Dialect, error) {
	for d, n := range dialectNames {
		if n == name {
			return Dialect(d), nil
		}
	}
	numbered := map[string]Dialect{"D0": Plain, "D1": Offset, "D2": Inode, "D3": Inode, "D4": Hash, "D5": Resolved}
	if d, ok := numbered[name]; ok {
		return d, nil
	}
	return Auto, fmt.Errorf("unknown dialect %q (one of auto, plain, offset, inode, hash, resolved, stock, D0 to D5)", name)
}
