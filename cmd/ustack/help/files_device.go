//go:build device

package help

import "embed"

// Devices do without the topics of commands that they do not have, and without what is not
// needed to use the others.
//
//go:embed replay.md live.md futex.md wait.md record.md maps.md health.md symbols.md
//go:embed formats.md correctness.md glossary.md usage/*.txt
var files embed.FS
