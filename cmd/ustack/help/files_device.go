//go:build device

package help

import "embed"

// Devices do without the topics and usage texts of commands that they do not have, and without
// what is not needed to use the others.
//
//go:embed replay.md live.md futex.md wait.md record.md maps.md health.md symbols.md
//go:embed formats.md correctness.md glossary.md
//go:embed usage/check-redaction.txt usage/clean.txt usage/doctor.txt usage/explain.txt usage/futex.txt
//go:embed usage/futex-live.txt usage/health.txt usage/live.txt usage/maps.txt usage/merge.txt usage/needs.txt
//go:embed usage/open.txt usage/record.txt usage/redact.txt usage/replay.txt usage/wait.txt
var files embed.FS
