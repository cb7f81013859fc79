//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// topCommand is left out of the build for devices, with its library for screens.
func topCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) has no full screen: use ustack futex --live --interval 1s, or ustack record there and ustack open elsewhere")
}
