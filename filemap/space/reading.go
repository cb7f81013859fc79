package space

import (
	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// Reading is what a process had mapped when it was read, also data, which Spaces do not have.
type Reading struct {
	At       tracefs.Time
	Mappings []procmap.Mapping // in order of address
}
