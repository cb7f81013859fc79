// Package instance makes and removes tracing instances of our own
// (Documentation/trace/ftrace.rst, "Instances"): a buffer with its own events,
// options and pipe, separate from the kernel's top level and from the instances of
// other programs. It writes into instances that it has made and nowhere else.
//
//	root, err := instance.Find("")     // where tracefs is
//	left, err := root.Clean()          // what dead processes left
//	chosen, err := root.Select(specs)  // events, by name
//	in, err := root.Create()           // instances/ustack-PID
//	defer in.Remove()
//	err = in.Configure(instance.Config{Clock: "mono", BufferKB: 4096})
//	source, err := in.SetStacks(instance.BestStacks)
//	err = in.Enable(chosen.Events)
//	pipe, err := in.Pipe()
//	err = in.Start()
//
// Where to look: options.go has the table of settings of a fresh instance;
// lock.go how the owner of an instance is known to live; spec.go the grammar of
// -e.
package instance
