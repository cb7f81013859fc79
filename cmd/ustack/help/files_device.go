//go:build device

package help

import "embed"

// Devices do without the topics of commands that they do not have, and without what is not
// needed to use the others: names of functions and other formats are made where traces are read.
//
//go:embed replay.md live.md futex.md wait.md record.md maps.md health.md
//go:embed correctness.md usage/*.txt
var files embed.FS
