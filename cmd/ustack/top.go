//go:build !device

package main

import (
	"errors"
	"runtime/debug"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/top"
)

// topCommand is the subcommand.
func topCommand(args []string, std command.Streams) error {
	var source liveFlags
	var f top.Flags
	fs := command.NewFlags("top")
	source.sourceFlags(fs)
	f.Register(fs)
	if err := command.Parse(fs, args, help.Usage("top"), std.Out); err != nil {
		return command.UsageError(err)
	}
	source.Command, source.Stitch, source.Sched = fs.Args(), true, true
	source.More, source.Events = source.Events, nil
	if err := errors.Join(source.checkSource(args), f.Check(std)); err != nil {
		return command.UsageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(futexMemory))
	opt := source.engine("top", std)
	opt.NoText, opt.Spare, opt.RoomKB = true, true, futexRoom
	return top.Run(&f, opt, std, func(to live.Sink) error { return trace(opt, to, liveGarbage) })
}
