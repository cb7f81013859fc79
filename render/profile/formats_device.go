//go:build device

package profile

import "fmt"

// Formats returns what a device has: it records, and what other programs show is made where
// reports are read.
func Formats() []Format {
	return []Format{{Name: "folded", Write: someFolded}}
}

// leftOut reports a format that only the other build has.
func leftOut(name string) error {
	switch name {
	case "pprof", "speedscope", "html", "perfetto":
		return fmt.Errorf("this build for devices has no --format=%s: record a report, and make it of that on another machine", name)
	}
	return nil
}
