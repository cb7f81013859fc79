package render

import (
	"fmt"

	"ustack/filemap/resolve"
)

// A Renderer writes batches in the order it gets them. Flush writes the pending
// output, Close the end of the output.
type Renderer interface {
	Batch(h *resolve.Pending) error
	Flush() error
	Close(t *resolve.Totals) error
}

// BuildIDStyle is how build IDs are written in text.
type BuildIDStyle uint8

const (
	// KernelWords is the kernel's form: build_id={0x3ba6e0c2,…}.
	KernelWords BuildIDStyle = iota
	// HexID is readelf -n's form: [build_id=c2e0a63b…].
	HexID
	// NoID leaves build IDs out.
	NoID
)

// ParseBuildIDStyle reads the value of --build-id.
func ParseBuildIDStyle(name string) (BuildIDStyle, error) {
	switch name {
	case "kernel":
		return KernelWords, nil
	case "hex":
		return HexID, nil
	case "none":
		return NoID, nil
	}
	return 0, fmt.Errorf("unknown form of build IDs %q (one of kernel, hex, none)", name)
}
