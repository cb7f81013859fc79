//go:build device

package redact

// This build makes no sums, and takes them as events that it does not know: none of their text stays.
const sumKeys = ""

func isSum([]byte) bool { return false }

func (g *grammar) sums([]byte) {}
