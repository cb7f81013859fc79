// Package input opens saved traces and reads them as batches of records: one
// file or stream (Source), or several merged by time (Merge).
package input
