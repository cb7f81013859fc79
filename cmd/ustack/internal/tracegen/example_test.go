package tracegen_test

import (
	"fmt"
	"log"
	"os"

	"ustack/cmd/ustack/internal/tracegen"
)

// How to put a trace of 300 MB on disk.
func ExampleWrite() {
	f, err := os.Create("trace_pipe.txt")
	if err != nil {
		log.Fatal(err)
	}
	stats, err := tracegen.Write(f, tracegen.Config{Bytes: 300 << 20, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d lines, %d stacks, %d frames\n", stats.Lines, stats.Stacks, stats.Frames)
}
