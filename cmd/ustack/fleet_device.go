//go:build device

package main

import (
	"errors"

	"ustack/cmd/ustack/internal/command"
)

// exportCommand and the others are for the machine where reports arrive.
func exportCommand([]string, command.Streams) error {
	return errors.New("this build for devices (go build -tags device) makes no tables: run ustack export where reports are gathered")
}

func fleetCommand(args []string, std command.Streams) error { return exportCommand(args, std) }

func pushCommand(args []string, std command.Streams) error { return exportCommand(args, std) }

func symbolizeCommand(args []string, std command.Streams) error { return exportCommand(args, std) }
