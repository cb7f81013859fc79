//go:build !device

package main

import (
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/query"
)

// queryCommand and mcpCommand answer questions about a trace, by the program ustack-query.
func queryCommand(args []string, std command.Streams) error { return query.Main(args, std) }

func mcpCommand(args []string, std command.Streams) error { return query.MainServer(args, std) }
