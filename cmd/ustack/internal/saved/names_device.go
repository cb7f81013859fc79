//go:build device

package saved

// loadNames loads nothing: the device build reads no saved names.
func (w *attributed) loadNames(string) error { return nil }

// namesNote returns "".
func (w *attributed) namesNote() string { return "" }
