package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParseAddress: what is an address, and what an error has of one that is not.
func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"clickhouse://h":                        {KindClickHouse, "h:8123", "default", false, false},
		"clickhouse://h/fleet":                  {KindClickHouse, "h:8123", "fleet", false, false},
		"clickhouse://h/?secure=true":           {KindClickHouse, "h:8443", "default", true, false},
		"clickhouse://[::1]:9/_f1?secure=false": {KindClickHouse, "[::1]:9", "_f1", false, false},
	} {
		if got, err := ParseAddress(text); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "h", "http://h", "clickhouse://", "clickhouse:///d", "clickhouse://h/a/b", "clickhouse://h/a;b", "clickhouse://h/1a", "clickhouse://h/a%20b",
		"clickhouse://user:s3cret@h", "clickhouse://s3cret@h", "clickhouse://h:s3cret", "clickhouse://h?password=s3cret", "clickhouse://h?s3cret",
		"clickhouse://h?secure=true&secure=true", "clickhouse://h?secure=maybe", "clickhouse://h#s3cret", "clickhouse://h/%zz", "clickhouse://h\x1b[2J",
	} {
		if got, err := ParseAddress(text); err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestParseTarget: servers of profiles have no database, and other ports.
func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Address{
		"otlp://h":                      {KindOTLP, "h:4318", "", false, false},
		"OTLP://h/":                     {KindOTLP, "h:4318", "", false, false},
		"otlp://h:1?secure=true":        {KindOTLP, "h:1", "", true, false},
		"pyroscope://h":                 {KindPyroscope, "h:4040", "", false, false},
		"pyroscope://[::1]?secure=true": {KindPyroscope, "[::1]:443", "", true, false},
		"pyroscope://h/ingest":          {KindPyroscope, "h:4040", "", false, true},
		"clickhouse://h/fleet":          {KindClickHouse, "h:8123", "fleet", false, false},
	} {
		if got, err := ParseTarget(text); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"otlp://", "otlp://h/fleet", "otlp://h/ingest", "pyroscope://h/ingest/x", "otlp://u:s3cret@h", "pyroscope://h#s3cret", "pyroscope://h?s3cret", "otlps://h", "://h", "otlp:h"} {
		if got, err := ParseTarget(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	_, err := ParseTarget("pyroscope://u@h")
	if err == nil || !strings.Contains(err.Error(), "USTACK_PYROSCOPE_PASSWORD") {
		t.Error(err)
	}
	c, err := KindOTLP.Credentials("", func(name string) string {
		return map[string]string{"USTACK_OTLP_USER": "u", "USTACK_OTLP_PASSWORD": "p"}[name]
	})
	if err != nil || c.User() != "u" || c.Password() != "p" {
		t.Errorf("%v, %v", c, err)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, text := range []string{"clickhouse://h", "clickhouse://[::1]:9/_f1?secure=false", "clickhouse://user:s@h", "clickhouse://h?x=%zz", "clickHouse://h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err == nil && (!IsName(a.Database) || a.Host == "" || strings.Contains(text, "@") || !IsAddress(text)) {
			t.Errorf("%q is %+v", text, a)
		}
	})
}

// TestLoadCredentials: from the environment or a file that others cannot read, and never into
// a text.
func TestLoadCredentials(t *testing.T) {
	environment := map[string]string{"USTACK_CLICKHOUSE_USER": "u", "USTACK_CLICKHOUSE_PASSWORD": "s3cret"}
	getenv := func(name string) string { return environment[name] }
	c, err := LoadCredentials("", getenv)
	if err != nil || c.User() != "u" || c.Password() != "s3cret" {
		t.Fatalf("%v, %v", c, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", c, c, c, c); strings.Contains(text, "s3cret") {
		t.Error(text)
	}
	environment["USTACK_CLICKHOUSE_PASSWORD"] = "s3cret\r\nHeader: x"
	if _, err := LoadCredentials("", getenv); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a line feed: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{"u:s3cret\n": "s3cret", "u:s3:cret": "s3:cret", "u:": "", "s3cret\n": "-", ":s3cret": "-", "": "-"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadCredentials(file, getenv)
		if want == "-" {
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err != nil || c.User() != "u" || c.Password() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCredentials(file, getenv); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	for _, name := range []string{filepath.Dir(file), file + ".none"} {
		if _, err := LoadCredentials(name, getenv); err == nil {
			t.Errorf("%s has credentials", name)
		}
	}
}

// TestParsePush: what push and --ddl take.
func TestParsePush(t *testing.T) {
	for _, args := range []string{"", "clickhouse://h", "dir report", "clickhouse://h -", "clickhouse://u:p@h report", "--retry=-1s clickhouse://h report", "--sysroot=/x clickhouse://h report"} {
		if f, err := ParsePush(strings.Fields(args), os.Stdout); err == nil {
			t.Errorf("push %s: %+v", args, f)
		}
	}
	for _, args := range []string{"--ddl=mysql", "--ddl=clickhouse report", "--ddl=clickhouse -o d", "--ddl=clickhouse --database=a;b", "--ddl=clickhouse --cluster=a'", "report"} {
		if f, err := ParseExport(strings.Fields(args), os.Stdout); err == nil {
			t.Errorf("export %s: %+v", args, f)
		}
	}
	if f, err := ParsePush([]string{"--retry=3s", "clickhouse://h", "a", "b"}, os.Stdout); err != nil || len(f.Files) != 2 || f.To.Host != "h:8123" {
		t.Errorf("%+v, %v", f, err)
	}
}
