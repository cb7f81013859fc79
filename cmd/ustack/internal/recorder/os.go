package recorder

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// osRelease says which operating system this is (os-release(5)).
const osRelease = "/etc/os-release"

// osName returns the name of the operating system, with the number of its build if it has
// one, "" if that is unknown.
func osName(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return ""
	}
	var name, build string
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch value = strings.Trim(value, `"'`); key {
		case "PRETTY_NAME":
			name = value
		case "BUILD_ID":
			build = value
		}
	}
	return strings.TrimSpace(name + " " + build)
}
