package profiles

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"

	"ustack/cmd/ustack/internal/fleet"
)

// client returns one for a server of a test.
func client(t *testing.T, kind fleet.Kind, server *httptest.Server) *Client {
	t.Helper()
	to, err := fleet.ParseTarget(string(kind) + "://" + strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	user, _ := kind.Variables()
	credentials, err := kind.Credentials("", func(name string) string {
		if name == user {
			return "u"
		}
		return "s3cret"
	})
	if err != nil {
		t.Fatal(err)
	}
	c := New(to, credentials, nil)
	c.Wait.First = time.Millisecond
	return c
}

// TestSend: a server that is busy, fails or ends the connection gets the same profile again.
func TestSend(t *testing.T) {
	for kind, path := range map[fleet.Kind]string{fleet.KindOTLP: "/v1development/profiles", fleet.KindPyroscope: "/push.v1.PusherService/Push"} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			user, password, _ := r.BasicAuth()
			if r.URL.Path != path || user != "u" || password != "s3cret" || r.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("%s asks for %s as %s", kind, r.URL, user)
			}
			switch len(bodies) {
			case 1:
				w.WriteHeader(http.StatusTooManyRequests)
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				panic(http.ErrAbortHandler)
			}
		}))
		again := 0
		err := client(t, kind, server).Send(context.Background(), specimen(), func(error, time.Duration) { again++ })
		server.Close()
		if err != nil || again != 3 || len(bodies) != 4 || bodies[0] != bodies[3] {
			t.Errorf("%s: %v, sent %d times, %d times again", kind, err, len(bodies), again)
		}
	}
}

// TestIngest: Pyroscope's older API gets the profile itself, and in the query whose it is and when
// it was; nothing of a report adds labels.
func TestIngest(t *testing.T) {
	r := specimen()
	r.Device, r.OS, r.Begun, r.Duration = "one,os=two}", "", 1_700_000_000_500_000_000, 2_000_000_000
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		q := request.URL.Query()
		name, _, _ := strings.Cut(q.Get("name"), "kernel=")
		if request.URL.Path != "/ingest" || q.Get("format") != "pprof" || q.Get("from") != "1700000000" || q.Get("until") != "1700000002" || strings.TrimRight(name, ",}") != "ustack{device=one_os_two_" {
			t.Errorf("%s, %q", request.URL, q)
		}
		if user, password, _ := request.BasicAuth(); user != "u" || password != "s3cret" || request.Header.Get("Content-Encoding") != "" {
			t.Errorf("as %s, %s", user, request.Header)
		}
		p, err := profile.Parse(request.Body)
		if err != nil {
			t.Error(err)
			return
		}
		want, ns := int64(0), int64(0)
		for _, s := range r.Samples {
			if s.Event == "" {
				want += s.Value
			}
		}
		for _, s := range p.Sample {
			ns += s.Value[1]
		}
		if ns != want || ns == 0 {
			t.Errorf("%d ns, want %d", ns, want)
		}
	}))
	defer server.Close()
	server.URL += ingest
	if err := client(t, fleet.KindPyroscope, server).Send(context.Background(), r, nil); err != nil {
		t.Error(err)
	}
}

// TestSendRefused: what a server does not take is an error, and nothing is sent again; no error
// has the password, or a control character of the server.
func TestSendRefused(t *testing.T) {
	partial := protowire.AppendString(protowire.AppendTag(nil, fieldMessage, protowire.BytesType), "too \x1bold, s3cret")
	partial = protowire.AppendVarint(protowire.AppendTag(partial, fieldRejected, protowire.VarintType), 2)
	for want, do := range map[string]http.HandlerFunc{
		"status 400": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "no s3cret \x1b[2J "+r.Header.Get("Authorization"))
		},
		"status 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"2 profiles were rejected": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, fieldPartial, protowire.BytesType), partial))
		},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			do(w, r)
		}))
		err := client(t, fleet.KindOTLP, server).Send(context.Background(), specimen(), nil)
		server.Close()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "dTpzM2NyZXQ") || strings.Contains(err.Error(), "\x1b") || asked != 1 {
			t.Errorf("%s: %v, asked %d times", want, err, asked)
		}
	}
}

// TestSendOther: what answers with the status 200, and is no server of profiles, has not taken any.
func TestSendOther(t *testing.T) {
	const page = "<!DOCTYPE html>\n<title>log in</title>"
	for _, c := range []struct {
		address fleet.Kind
		path    string
		answer  string
		ok      bool
	}{
		{fleet.KindOTLP, "", "", true},
		{fleet.KindOTLP, "", page, false},
		{fleet.KindOTLP, "", "\n  " + page, false},
		{fleet.KindOTLP, "", `{"partialSuccess":{}}`, false},
		{fleet.KindOTLP, "", strings.Repeat("\x08\x01", maxAnswer), false},
		{fleet.KindOTLP, "", "\x0a\x00", true},
		{fleet.KindPyroscope, "", "{}", true},
		{fleet.KindPyroscope, "", page, false},
		{fleet.KindPyroscope, ingest, "", true},
		{fleet.KindPyroscope, ingest, "ok", true},
		{fleet.KindPyroscope, ingest, page, false},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_, _ = io.WriteString(w, c.answer)
		}))
		server.URL += c.path
		err := client(t, c.address, server).Send(context.Background(), specimen(), nil)
		server.Close()
		if (err == nil) != c.ok || asked != 1 {
			t.Errorf("%s%s answers %.40q: %v, asked %d times", c.address, c.path, c.answer, err, asked)
		}
	}
}

const ingest = "/ingest"

// TestSendEnds: a server that stays busy is given up, and a user can end it.
func TestSendEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer server.Close()
	c := client(t, fleet.KindOTLP, server)
	c.Wait.Total = 0
	if err := c.Send(context.Background(), specimen(), nil); err == nil || !strings.Contains(err.Error(), "giving up") {
		t.Error(err)
	}
	c.Wait.Total = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	if err := c.Send(ctx, specimen(), func(error, time.Duration) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRejectedHostile: any answer is read.
func TestRejectedHostile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		answer := make([]byte, random.IntN(40))
		for i := range answer {
			answer[i] = byte(random.Uint32() >> random.IntN(9))
		}
		if err := rejected(answer, new(fleet.Credentials)); err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
