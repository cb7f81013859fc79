// Package page puts pages of HTML together that need nothing else: style, scripts
// and data are in the one file, and a policy in it forbids to fetch anything and to
// run any other script.
//
// Strings of a trace are data, and scripts show them as text. None of them is ever
// HTML.
package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

// Part is a piece of a page. All of it is ours: nothing of a trace may be in it.
type Part struct {
	Style, Body, Script string
}

// Data is what scripts read by load(ID). Write writes it, as JSON.
type Data struct {
	ID    string
	Write func(w *bufio.Writer) error
}

var (
	//go:embed base.css
	baseStyle string
	//go:embed base.js
	baseScript string
)

const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src %s; script-src %s">
<title>%s</title>
<style>%s</style>
</head>
<body>
`

const noScript = "<noscript><p>This page draws with JavaScript, which is switched off.</p></noscript>\n" +
	"<div id=\"info\" role=\"status\"></div>\n"

// Write writes a page of parts, in their order. The title is HTML.
func Write(w io.Writer, title string, parts []Part, data []Data) error {
	style, script := "\n"+baseStyle, "\n"+baseScript
	for _, p := range parts {
		style += p.Style
		script += "{\n" + p.Script + "}\n" // each has its own names
	}
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, head, hash(style), hash(script), title, style)
	for _, p := range parts {
		out.WriteString(p.Body)
	}
	out.WriteString(noScript)
	for _, d := range data {
		fmt.Fprintf(out, "<script type=\"application/json\" id=%q>", "data-"+d.ID)
		inside := bufio.NewWriter(&escaper{out})
		if err := d.Write(inside); err != nil {
			return err
		}
		if err := inside.Flush(); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		out.WriteString("</script>\n")
	}
	fmt.Fprintf(out, "<script>%s</script>\n</body>\n</html>\n", script)
	return out.Flush() // which has the first error of all of them
}

// hash names a text in a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// escaper writes JSON so that nothing in it can end the script that it is in, with
// any encoder: a "<" in JSON is in a string, where it may be escaped.
type escaper struct{ out *bufio.Writer }

func (e *escaper) Write(b []byte) (int, error) {
	text := string(b)
	for {
		before, after, found := strings.Cut(text, "<")
		if _, err := e.out.WriteString(before); err != nil || !found {
			return len(b), err
		}
		if _, err := e.out.WriteString(`\u003c`); err != nil {
			return 0, err
		}
		text = after
	}
}
