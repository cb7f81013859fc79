//go:build !device

package profile

// Formats returns all of them. A new one is a row here, and a file.
func Formats() []Format {
	return []Format{
		{Name: "folded", Write: someFolded},
		{Name: "pprof", Binary: true, Write: Pprof},
		{Name: "speedscope", Write: Speedscope},
		{Name: "html", Page: true, Write: HTML},
		{Name: "perfetto", Binary: true, Timed: true},
	}
}

// leftOut returns nil: this build has all formats.
func leftOut(string) error { return nil }
