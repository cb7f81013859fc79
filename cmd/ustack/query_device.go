//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// queryCommand and mcpCommand are not for devices: they need a database, of half the size of
// this program.
func queryCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) has no database: run ustack query where traces are read")
}

func mcpCommand(args []string, std command.Streams) error { return queryCommand(args, std) }
