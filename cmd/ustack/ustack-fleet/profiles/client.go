package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// Client sends profiles to one server.
type Client struct {
	// Wait is how long to wait before a profile is sent again.
	Wait clickhouse.Backoff

	kind        fleet.Kind
	ingest      bool
	url         string
	credentials *fleet.Credentials
	http        *http.Client
}

// Bounds on what a server can do to this program.
const (
	answerTime = 2 * time.Minute
	maxAnswer  = 64 << 10
)

// New returns a client. transport is nil for that of net/http.
func New(to *fleet.Address, c *fleet.Credentials, transport http.RoundTripper) *Client {
	scheme := "http"
	if to.Secure {
		scheme = "https"
	}
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &Client{
		Wait: clickhouse.DefaultBackoff(), kind: to.Kind, ingest: to.Ingest, url: scheme + "://" + to.Host, credentials: c,
		http: &http.Client{
			Transport: transport, Timeout: answerTime,
			// Another server would get the password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Send sends a report, again while the server does not answer or is too busy: its status is
// 429 or 5xx. again is called before each time; it may be nil.
func (c *Client) Send(ctx context.Context, r *Report, again func(error, time.Duration)) error {
	m, err := c.message(r)
	if err != nil {
		return err
	}
	return c.Wait.Retry(ctx, again, func() error {
		answer, err := c.post(ctx, m)
		switch {
		case err != nil:
			return err
		case !c.canAnswer(answer):
			return fmt.Errorf("%s answers as no %s server does (%.40q): is it another one?", c.url, c.kind, http.DetectContentType(answer))
		case c.kind == fleet.KindOTLP:
			return rejected(answer, c.credentials)
		}
		return nil
	})
}

// canAnswer reports whether a server of the kind can have sent a body with the status 200. Others
// do, too: proxies with a page to log in, any server of files.
func (c *Client) canAnswer(answer []byte) bool {
	switch {
	case len(answer) > maxAnswer:
		return false
	case len(answer) == 0: // all fields are optional
		return true
	case c.ingest: // its answer has no form
		return !strings.HasPrefix(http.DetectContentType(answer), "text/html")
	case c.kind == fleet.KindPyroscope:
		return json.Valid(answer)
	}
	return each(answer, func(protowire.Number, uint64, []byte) {})
}

// message is what is posted.
type message struct {
	path, kind string
	body       []byte
	gzip       bool // the body is compressed, as HTTP knows it
}

// message returns what is posted of a report.
func (c *Client) message(r *Report) (m message, err error) {
	switch {
	case c.ingest:
		m.path, m.kind = Ingest(r), "application/octet-stream"
		m.body, err = Pprof(r)
		return m, err
	case c.kind == fleet.KindPyroscope:
		m.path, m.kind = "/push.v1.PusherService/Push", "application/json"
		m.body, err = PushV1(r)
	default:
		m.path, m.kind = "/v1development/profiles", "application/x-protobuf"
		m.body, err = OTLP(r)
	}
	if err == nil {
		m.gzip = true
		m.body, err = zipped(m.body)
	}
	return m, err
}

func zipped(body []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(body)
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("compressing a profile: %w", err)
	}
	return b.Bytes(), nil
}

// post sends a request and returns the body of the answer.
func (c *Client) post(ctx context.Context, m message) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+m.path, bytes.NewReader(m.body))
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	request.Header.Set("Content-Type", m.kind)
	if m.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	if c.kind == fleet.KindPyroscope && !c.ingest {
		request.Header.Set("Connect-Protocol-Version", "1")
	}
	if c.credentials.User() != "" {
		request.SetBasicAuth(c.credentials.User(), c.credentials.Password())
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, clickhouse.Lost(c.url, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, clickhouse.MaxError)) // what there is
		return nil, clickhouse.NewError(answer, text, c.credentials)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, clickhouse.Lost(c.url, err)
	}
	return text, nil
}

// Fields of ExportProfilesServiceResponse (profiles_service.proto): partial_success, and in that
// rejected_profiles and error_message.
const (
	fieldPartial  = 1
	fieldRejected = 1
	fieldMessage  = 2
)

// rejected returns an error if the answer of a server says that it did not take all profiles.
func rejected(answer []byte, c *fleet.Credentials) error {
	var number uint64
	var message []byte
	each(answer, func(field protowire.Number, _ uint64, partial []byte) {
		if field != fieldPartial {
			return
		}
		each(partial, func(field protowire.Number, n uint64, text []byte) {
			switch field {
			case fieldRejected:
				number = n
			case fieldMessage:
				message = text
			}
		})
	})
	if number == 0 {
		return nil
	}
	return fmt.Errorf("%d profiles were rejected: %w", number, clickhouse.NewError(&http.Response{StatusCode: http.StatusOK}, message, c))
}

// each calls do with the fields of a message that are numbers and texts, and reports whether it is
// one up to its end.
func each(b []byte, do func(field protowire.Number, number uint64, text []byte)) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			number, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return false
			}
			do(field, number, nil)
			b = b[n:]
		case protowire.BytesType:
			text, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return false
			}
			do(field, 0, text)
			b = b[n:]
		default:
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return false
			}
			b = b[n:]
		}
	}
	return true
}
