// Package perf reads events of the kernel through perf_event_open(2): it opens
// them, maps the ring buffers of the CPUs, and gives their records in order of
// time, with the places where records were lost.
//
//	ring, err := perf.OpenRing(cpu, size, func(size int) (int, error) {
//		return perf.Event{Tracepoint: id, Raw: true, Clock: clock, Wakeup: size / 4}.Open(perf.OnCPU(cpu))
//	})
//
// [Batch] copies what is in the rings, which gives the room back at once, for a
// reader that needs long for each record.
//
// What the records mean is for others to say: filemap/sideband follows mappings
// with them.
package perf
