//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// watchCommand is for the machine where reports arrive.
func watchCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) processes no reports as they arrive: run ustack watch where they do")
}
