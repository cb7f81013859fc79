// Package whole gives the waits of a live trace their whole stacks: a perf sample of the
// same hit of the tracepoint has registers and a copy of the stack (tracefs/perf), is
// joined to the trace's own record (tracefs/perf/join), and is unwound by the tables of
// the files that the thread had mapped at that time (filemap/unwind). The batch then has
// the frames that were found in the place of the kernel's, which go by frame pointers.
//
// A stock stack follows its event at once. A deferred one comes when the thread returns to
// user space: what was found is kept until then, under the cookie of the request, and only
// adds the frames that the kernel has left out.
//
// A stack that cannot be joined or unwound stays as the kernel gave it, and is
// counted.
package whole
