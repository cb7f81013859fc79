// Package perfdata reads the files that perf record writes (perf.data): files, what
// perf record -o - writes to a pipe, and compressed ones.
//
//	f, err := perfdata.Open(file, size)
//	f.SideBand(func(r *perf.Record) { … }) // mappings, forks, names
//	src := f.Source(binary.Options{Events: true}, nil)
//	for {
//		err := src.Next(&batch)
//		…
//	}
//
// The layout is that of tools/perf/Documentation/perf.data-file-format.txt and
// tools/perf/util/header.h, and of records that of include/uapi/linux/perf_event.h.
//
// A file is untrusted: all sizes in it are bounded. The first bytes that are no record
// end the reading, as there is no way to find the next record; all that stands before
// them is read, and the error says at which byte they are. A record of a sound size
// that has impossible contents is left out and counted.
//
// Where to look: file.go reads the header, attr.go the events, feature.go the sections
// after the data; stream.go cuts the data into records, unpack.go decompresses them,
// order.go puts them in order of time; sample.go and record.go decode them; source.go
// makes batches of them.
package perfdata
