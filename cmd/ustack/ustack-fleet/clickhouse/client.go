// Package clickhouse sends rows and questions to a ClickHouse server over HTTP, and repeats
// what a server that was down or busy did not take.
//
// It is net/http alone: the official client speaks a version of the native protocol that
// servers of 2018 do not have, and HTTP with RowBinary is the same in all of them.
package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"ustack/cmd/ustack/internal/fleet"
)

// Client sends statements to one server. Several goroutines may use it; Wait is set before.
type Client struct {
	// Wait is how long to wait before a statement is sent again; see Retry.
	Wait Backoff

	url         string
	database    string
	credentials *fleet.Credentials
	http        *http.Client
}

// Bounds on what a server can do to this program.
const (
	answerTime = 10 * time.Minute
	maxAnswer  = 64 << 20 // bytes

	// MaxError is how many bytes of an answer an error is made of.
	MaxError = 4 << 10
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
		Wait: DefaultBackoff(), url: scheme + "://" + to.Host + "/", database: to.Database, credentials: c,
		http: &http.Client{
			Transport: transport, Timeout: answerTime,
			// Another server would get the password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// External is a table that a statement refers to by its name and that is sent with it: what a
// user or a report has chosen is never a part of the statement. (Parameters of statements are
// newer than the servers that this is for.)
type External struct {
	Name      string
	Structure string // of its columns: "name Type, ..."
	Body      []byte // RowBinary
}

// Insert sends rows in RowBinary. The statement ends before FORMAT.
func (c *Client) Insert(ctx context.Context, statement string, body []byte) error {
	parameters := url.Values{
		"query": {statement + " FORMAT RowBinary"},
		// With a Distributed table, the answer comes when the shards have the rows.
		"insert_distributed_sync": {"1"},
	}
	answer, err := c.post(ctx, parameters, "application/octet-stream", body)
	if err == nil && len(answer) > 0 {
		err = NewError(&http.Response{}, answer, c.credentials)
	}
	return err
}

// Exec runs a statement that has no answer.
func (c *Client) Exec(ctx context.Context, statement string) error {
	_, err := c.post(ctx, url.Values{}, "text/plain", []byte(statement))
	return err
}

// Query returns the rows of an answer; a value is nil if it is NULL. The statement has no
// FORMAT.
func (c *Client) Query(ctx context.Context, statement string, with ...External) ([][]*string, error) {
	parameters := url.Values{}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormField("query")
	if err == nil {
		_, err = io.WriteString(part, statement+"\nFORMAT TabSeparated")
	}
	for _, table := range with {
		parameters.Set(table.Name+"_structure", table.Structure)
		parameters.Set(table.Name+"_format", "RowBinary")
		if err == nil {
			part, err = w.CreateFormFile(table.Name, table.Name)
		}
		if err == nil {
			_, err = part.Write(table.Body)
		}
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("writing the question: %w", err)
	}
	answer, err := c.post(ctx, parameters, w.FormDataContentType(), body.Bytes())
	if err != nil {
		return nil, err
	}
	return fleet.ParseTabSeparated(answer)
}

// post sends a request and returns the body of the answer.
func (c *Client) post(ctx context.Context, parameters url.Values, contentType string, body []byte) ([]byte, error) {
	parameters.Set("database", c.database)
	parameters.Set("wait_end_of_query", "1") // an error after the first row would have the status 200
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"?"+parameters.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	request.Header.Set("Content-Type", contentType)
	if c.credentials.User() != "" {
		request.Header.Set("X-ClickHouse-User", c.credentials.User())
		request.Header.Set("X-ClickHouse-Key", c.credentials.Password())
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.failed(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, c.refused(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.failed(err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer of the server has more than %d bytes", maxAnswer)
	}
	return text, nil
}

// failed returns the error of a request without an answer. Its text has neither the statement
// nor the parameters.
func (c *Client) failed(err error) error { return Lost(c.url, err) }

// refused returns the error of an answer with a status other than 200.
func (c *Client) refused(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, MaxError)) // what there is
	return NewError(answer, text, c.credentials)
}
