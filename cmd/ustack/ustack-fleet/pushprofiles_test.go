package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"ustack/cmd/ustack/internal/fleet"
)

// received is what a server of profiles got.
type received struct {
	t      *testing.T
	ns     int64 // of waits
	places map[string]bool
	asked  int
}

func (r *received) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	r.asked++
	z, err := gzip.NewReader(request.Body)
	if err != nil {
		r.t.Error(err)
		return
	}
	body, err := io.ReadAll(z)
	if err != nil {
		r.t.Error(err)
		return
	}
	if strings.HasPrefix(request.URL.Path, "/push.v1") {
		err = r.pprof(body)
	} else {
		err = r.otlp(body)
	}
	if err != nil {
		r.t.Error(err)
	}
}

func (r *received) otlp(body []byte) error {
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(body)
	if err != nil {
		return err
	}
	d := all.Dictionary()
	for _, p := range all.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().All() {
		if d.StringTable().At(int(p.SampleType().TypeStrindex())) != "delay" {
			continue
		}
		for _, s := range p.Samples().All() {
			for _, v := range s.Values().All() {
				r.ns += v
			}
			for _, n := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				l := d.LocationTable().At(int(n))
				if m := d.MappingTable().At(int(l.MappingIndex())); l.MappingIndex() != 0 {
					r.places[fmt.Sprint(d.StringTable().At(int(m.FilenameStrindex())), " ", l.Address())] = true
				}
			}
		}
	}
	return nil
}

func (r *received) pprof(body []byte) error {
	var request struct {
		Series []struct{ Samples []struct{ RawProfile []byte } }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	p, err := profile.Parse(bytes.NewReader(request.Series[0].Samples[0].RawProfile))
	if err != nil {
		return err
	}
	for _, s := range p.Sample {
		r.ns += s.Value[1]
		for _, l := range s.Location {
			if m := l.Mapping; m != nil {
				r.places[fmt.Sprint(m.File, " ", l.Address-m.Start)] = true
			}
		}
	}
	return nil
}

// TestPushProfiles: servers of profiles get the waits and the places that tables have.
func TestPushProfiles(t *testing.T) {
	dir := t.TempDir()
	files := []string{report(t, dir, "a", "one", gitEvents), report(t, dir, "b", "two", gitEvents), filepath.Join(testdata, "captures", "hash", "edge", "trace.txt.zst")}
	db := filepath.Join(dir, "db")
	c := export(t, db, files)
	for _, kind := range []fleet.Kind{fleet.KindOTLP, fleet.KindPyroscope} {
		got := received{t: t, places: make(map[string]bool)}
		server := httptest.NewServer(&got)
		address := string(kind) + strings.TrimPrefix(server.URL, "http")
		f, err := fleet.ParsePush(append([]string{"-q", address}, append(files, files[0], filepath.Join(dir, "none"))...), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var messages bytes.Buffer
		p, err := newProfilePusher(f, &messages, func(string) string { return "" }, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = p.run(context.Background())
		server.Close()
		if err == nil || !strings.Contains(err.Error(), "1 of 5 reports were left out") || !strings.Contains(messages.String(), "3 reports pushed") || got.asked != len(files) {
			t.Errorf("%s: %v, %s, asked %d times", kind, err, &messages, got.asked)
		}
		if got.ns != c.ns || c.ns == 0 {
			t.Errorf("%s: %d ns, want %d", kind, got.ns, c.ns)
		}
		for place := range c.places {
			if !got.places[place] {
				t.Errorf("%s: %s is missing", kind, place)
			}
		}
		if len(got.places) != len(c.places) || len(c.places) < 10 {
			t.Errorf("%s: %d places, want %d", kind, len(got.places), len(c.places))
		}
	}
}

// export exports reports and returns what their waits have.
func export(t *testing.T, db string, files []string) received {
	t.Helper()
	ran(t, 0, append([]string{"export", "-q", "-o", db}, files...)...)
	c := received{places: make(map[string]bool)}
	stacks := make(map[uint64]bool)
	for _, s := range read[sampleRow](t, db, tableSamples) {
		if s.NS != nil {
			c.ns += *s.NS
			if s.Stack != nil {
				stacks[*s.Stack] = true
			}
		}
	}
	for _, f := range read[frameRow](t, db, tableFrames) {
		if stacks[f.Stack] && f.Path != nil && f.Offset != nil {
			at := *f.Offset
			if !f.Ran && at > 0 {
				at--
			}
			c.places[fmt.Sprint(*f.Path, " ", at)] = true
		}
	}
	return c
}

// TestProfileBuildID: a build ID is in a profile as the file has it.
func TestProfileBuildID(t *testing.T) {
	for id, want := range map[string]string{
		"0ff983c480b734f271c75b962681472885566e49": "0ff983c480b734f271c75b962681472885566e49",
		"0ff983c480b734f2000000000000000000000000": "0ff983c480b734f2",
		"": "", "xy": "",
	} {
		s := &stack{frames: []frameRow{{Path: some("/f"), BuildID: some(id), Ran: true}}}
		if got := framesOf(s)[0].BuildID; got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
}
