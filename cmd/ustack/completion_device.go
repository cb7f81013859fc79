//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// completionCommand is not in this build.
func completionCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) has no scripts for shells: those of another build of ustack complete its commands")
}

// completeCommand completes nothing.
func completeCommand([]string, command.Streams) error { return nil }
