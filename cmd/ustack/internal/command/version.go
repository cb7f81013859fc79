package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version returns the origin of this program by the Go toolchain: module version and
// commit, "unknown" if it has none.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	return version
}

// VersionLine returns Version with what else can differ between two programs: changes that
// are not committed, toolchain, machine and build tags.
func VersionLine() string {
	words := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	changed := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", changed since"
			case s.Key == "-tags":
				words = append(words, "tags: "+s.Value)
			}
		}
	}
	return fmt.Sprintf("ustack %s%s (%s)", Version(), changed, strings.Join(words, ", "))
}
