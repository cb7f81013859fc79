// Package report writes what package futex has found: as text for people, the
// answer in its first lines, and as a JSON document.
package report
