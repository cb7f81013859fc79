// Package filemap describes the file of a frame: files and build IDs, how much a
// name can be trusted, why a frame has none, and the table of what an identifier of
// the kernel meant at which time.
//
// filemap/resolve puts this to work on a stream of records.
package filemap
