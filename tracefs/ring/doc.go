// Package ring decodes sub-buffers (pages) of the kernel's ring buffer, as
// trace_pipe_raw and trace.dat have them: which records there are, and their
// times (kernel/trace/ring_buffer.c, include/linux/ring_buffer.h). It does not
// decode the records' contents.
package ring
