// Package pagefile writes and reads reports that have the sub-buffers of the ring buffer
// as they were read, and beside them all that text is made of.
//
// A file is the magic and chunks. A chunk is a head and a zstd frame:
//
//	kind uint32, cpu uint32     see the kinds
//	packed uint32, size uint32  bytes of the frame, and of what is in it
//	sum uint32                  CRC-32C of the frame
//	head uint32                 CRC-32C of the 20 bytes above, after that of the head before
//
// all little-endian. The kinds are
//
//	meta   files of tracefs: formats, header_page, trace_clock and so on
//	head   lines "# ustack: key=value", as at the beginning of a report of text
//	log    of what processes had mapped, see package filemap/sideband
//	comms  from when on a thread was called what
//	pages  of one CPU, in order: length uint32, sub-buffer without its unused end
//	note   a line for the reader
//	end    the last line of a report
//
// Invariants:
//   - What the records in a chunk of pages need of log and comms is in chunks before it:
//     a file that was cut anywhere has right names up to there.
//   - A chunk that is damaged or missing is an error, and a gap in the records of its CPU.
//   - Heads are chained: no chunk can be taken out, or change its place.
//   - Memory is bounded by what the writer needs, whatever the file says.
package pagefile
