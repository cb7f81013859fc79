package instance

import (
	"fmt"
	"os"
)

// Mark writes a text into the trace (Documentation/trace/ftrace.rst,
// trace_marker).
func (i *Instance) Mark(text string) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return ErrRemoved
	}
	f, err := i.dir.open("trace_marker", os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("marking the trace: %w", err)
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("marking the trace: %w", err)
	}
	return nil
}
