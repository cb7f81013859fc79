// Package report writes what package futex has found: as text for people, the
// answer in its first lines, as a JSON document, as a page with a table of the locks
// and a time line of the waits, and for other programs.
package report
