// Package perfetto writes traces in the native format of Perfetto, a Trace of
// TracePackets (protos/perfetto/trace/trace.proto of github.com/google/perfetto),
// which ui.perfetto.dev opens.
//
// All is TrackEvents on the tracks of threads: what has a duration is a slice, what
// has none an instant, and each has its stack. Nothing but the tables of what has
// been interned is kept, and those begin anew when they are full, as the format
// allows. The same calls make the same bytes.
package perfetto
