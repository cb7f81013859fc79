package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
)

// symbolizeServer names what a server has, and returns what was said.
func symbolizeServer(t *testing.T, s *server, root string, transport http.RoundTripper) string {
	t.Helper()
	f, err := fleet.ParseSymbolize([]string{"-q", "--sysroot", root, s.address()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Symbols.Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	var messages bytes.Buffer
	one := symbolizer{Symbolize: f, namer: &namer{names}, messages: &messages}
	if err := one.server(context.Background(), transport); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("looked for %d names: %d found, %d of them new", one.asked, one.named, one.fresh)
}

// namesOn returns the names that a server has.
func namesOn(t *testing.T, s *server) map[framePlace]frameName {
	t.Helper()
	rows, err := s.client().Query(context.Background(), "SELECT build_id, offset, ran, function, inlined, source, line, reason FROM functions FINAL")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[framePlace]frameName)
	for _, row := range rows {
		at, err := placeOf(row[1:3], 2)
		if err != nil {
			t.Fatal(err)
		}
		key := framePlace{*row[0], at.offset, at.ran}
		if _, twice := names[key]; twice {
			t.Errorf("%v is there twice", key)
		}
		names[key] = frameName{text0(row[3]), text0(row[4]), text0(row[5]), text0(row[6]), text0(row[7])}
	}
	return names
}

// TestPushSymbolize: a server, and two as shards, get the names that a directory gets, each
// once, also if the server is killed, and samples do not change.
func TestPushSymbolize(t *testing.T) {
	t.Setenv("USTACK_CLICKHOUSE_USER", "fleet")
	t.Setenv("USTACK_CLICKHOUSE_PASSWORD", password)
	root, files := symbolReports(t)
	db, more := fleetReports(t)
	files = append(files, more...)
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	empty := t.TempDir()
	s := servers(t, 2)
	for _, c := range []struct {
		ddl    string
		killed *server
	}{{"--ddl=clickhouse", s[0]}, {"--ddl=clickhouse-distributed", s[1]}} {
		for _, one := range s {
			one.create(c.ddl)
		}
		if said, err := push(t, s[0], nil, files...); err != nil {
			t.Fatal(said, err)
		}
		sum := "SELECT sum(cityHash64(report, batch, stack, ns)) FROM samples"
		before := s[0].number(sum)
		symbolizeServer(t, s[0], empty, nil)
		first := symbolizeServer(t, s[0], root, &hooked{at: 2, do: ways(c.killed)["after"]})
		if again := symbolizeServer(t, s[0], empty, nil); !strings.HasSuffix(again, " 0 of them new") || strings.HasSuffix(first, " 0 of them new") {
			t.Errorf("%s, and then %s", first, again)
		}
		ran(t, command.OK, "symbolize", "-q", "--sysroot", root, db)
		want, functions := namesIn(t, db)
		got := namesOn(t, s[0])
		for at, name := range want {
			if got[at] != name {
				t.Errorf("%v: %v, want %v", at, got[at], name)
			}
		}
		if len(got) != len(want) || functions == 0 {
			t.Errorf("%d names, want %d, of %d functions", len(got), len(want), functions)
		}
		if after := s[0].number(sum); after != before {
			t.Errorf("samples have changed: %s, %s", before, after)
		}
		sameAnswers(t, s[0], db)
		s[0].drop()
		s[1].drop()
	}
}
