// Package render writes resolved traces: as the kernel's text with files in
// the frames (render.Text), as JSON lines (render.JSON), and the totals.
// Besides the commands it is the only place that prints.
package render
