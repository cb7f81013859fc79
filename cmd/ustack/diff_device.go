//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// diffCommand is left out of the build for devices, with a hundredth of the program.
func diffCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) does not compare traces: run ustack diff where they are read")
}
