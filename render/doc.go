// Package render writes resolved traces: as the kernel's text with files in
// the frames (render.Text), as JSON lines (render.JSON), and the totals.
// Besides the commands it is the only place that prints.
//
// Stacks have the names of their functions before a renderer gets them
// (symbolize.Stage); no renderer opens an ELF file. What a renderer keeps of how
// it has written something is its own, by numbers (package cache).
package render
