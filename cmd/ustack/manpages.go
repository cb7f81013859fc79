//go:build !device

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/front"
	"ustack/cmd/ustack/internal/manpage"
	"ustack/render/outfile"
)

// writeManPages writes the manual as pages for man(1) into a directory.
func writeManPages(path string) (err error) {
	dir, err := outfile.OpenDir(path)
	if err != nil {
		return fmt.Errorf("opening the directory for pages: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for _, page := range manPages() {
		f, err := dir.New(fmt.Sprintf("%s.%d", page.Name, page.Section))
		if err != nil {
			return fmt.Errorf("creating a page: %w", err)
		}
		if err := errors.Join(page.Write(f), f.Close()); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}

// manPages returns a page for the program, one for each command, with the topic of its
// name, and one for each other topic.
func manPages() []manpage.Page {
	var list bytes.Buffer
	usage(&list)
	pages := []manpage.Page{{Name: "ustack", Section: 1, Summary: "files and functions in user-space stacks of ftrace", Help: list.String() + "\n" + front.Welcome}}
	add := func(p manpage.Page) {
		pages[0].SeeAlso = append(pages[0].SeeAlso, fmt.Sprintf("%s(%d)", p.Name, p.Section))
		p.SeeAlso = []string{"ustack(1)"}
		pages = append(pages, p)
	}
	of := make(map[string]bool)
	for _, c := range commands() {
		topic, _ := help.Find(c.Name)
		of[c.Name] = true
		add(manpage.Page{Name: "ustack-" + c.Name, Section: 1, Summary: c.Summary, Help: helpOf(&c), Topic: topic.Text})
		if c.Name == front.Command {
			add(manpage.Page{Name: "ustack-" + c.Name + "-live", Section: 1, Summary: c.Summary + ", tracing now", Help: helpOf(&c, "--live")})
		}
	}
	for _, t := range help.Topics() {
		if !of[t.Name] {
			add(manpage.Page{Name: "ustack-" + t.Name, Section: 7, Summary: t.Summary, Topic: t.Text})
		}
	}
	return pages
}

// helpOf returns what a command prints for --help.
func helpOf(c *command.Command, args ...string) string {
	var text bytes.Buffer
	_ = c.Run(append(args, "--help"), command.Streams{In: strings.NewReader(""), Out: &text, Err: io.Discard}) // flag.ErrHelp
	return text.String()
}
