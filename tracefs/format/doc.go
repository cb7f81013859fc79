// Package format reads how the kernel describes its binary records: the
// events/SYSTEM/EVENT/format files of tracefs, events/header_page and
// events/header_event (f_show in kernel/trace/trace_events.c,
// ring_buffer_print_page_header and ring_buffer_print_entry_header in
// kernel/trace/ring_buffer.c).
//
// The numbers differ from kernel to kernel, so nothing about them is known
// beforehand. A print fmt is kept as text; package printfmt compiles it.
package format
