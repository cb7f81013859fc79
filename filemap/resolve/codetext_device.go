//go:build device

package resolve

import (
	"ustack/filemap"
	"ustack/tracefs"
)

// codeMemory is empty: the device build writes the functions of code without a file into
// reports, and shows them as they are written there.
type codeMemory struct{}

func (t *texts) code([]byte, *tracefs.Frame, filemap.Reason) *filemap.Memory { return nil }
