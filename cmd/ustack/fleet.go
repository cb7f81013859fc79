//go:build !device

package main

import (
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
)

// These commands are for reports of many devices, by the program ustack-fleet.
func exportCommand(args []string, std command.Streams) error { return fleet.MainExport(args, std) }

func fleetCommand(args []string, std command.Streams) error { return fleet.MainAsk(args, std) }

func pushCommand(args []string, std command.Streams) error { return fleet.MainPush(args, std) }

func symbolizeCommand(args []string, std command.Streams) error {
	return fleet.MainSymbolize(args, std)
}
