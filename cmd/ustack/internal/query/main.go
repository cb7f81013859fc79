package query

import (
	"io"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/companion"
	"ustack/cmd/ustack/internal/tables"
)

// program is the program with the database.
const program = "ustack-query"

// Main is the command query of ustack: the flags are checked, the schema is printed, and all
// else is done by ustack-query.
func Main(args []string, std command.Streams) error {
	f, err := Parse(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	if f.Schema {
		return f.To.Send(std.Out, false, func(w io.Writer) error { return tables.WriteSchema(w) })
	}
	return companion.Become(program, "query", args)
}

// MainServer is the command mcp of ustack.
func MainServer(args []string, std command.Streams) error {
	if _, err := ParseServer(args, std.Out); err != nil {
		return command.UsageError(err)
	}
	return companion.Become(program, "mcp", args)
}
