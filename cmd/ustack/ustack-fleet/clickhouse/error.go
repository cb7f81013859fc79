package clickhouse

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ustack/cmd/ustack/internal/fleet"
)

// Error is what a server answered instead of rows.
type Error struct {
	Status int    // of HTTP
	Code   int    // of ClickHouse (its ErrorCodes.cpp), 0 if there is none
	Text   string // printable
	// After is how long the server wants to be left alone, 0 if it does not say.
	After time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	if e.Text == "" {
		return strings.TrimSpace(fmt.Sprintf("the server refuses with status %d %s", e.Status, http.StatusText(e.Status)))
	}
	return fmt.Sprintf("the server refuses (status %d): %s", e.Status, e.Text)
}

// NewError returns the error of an answer, with the beginning of its body, at most MaxError
// bytes, without the password, which a server can repeat as it was sent: as it is, or with the
// user in base64.
func NewError(answer *http.Response, text []byte, c *fleet.Credentials) *Error {
	text = without(text, c.Password())
	text = without(text, base64.StdEncoding.EncodeToString([]byte(c.User()+":"+c.Password())))
	return &Error{Status: answer.StatusCode, Code: codeOf(text), Text: plain(text), After: retryAfter(answer, time.Now())}
}

// without returns a text without a secret, of which the end may have been cut with the text.
func without(text []byte, secret string) []byte {
	if secret == "" {
		return text
	}
	cut := len(text) >= MaxError
	text = bytes.ReplaceAll(text, []byte(secret), []byte("..."))
	for n := len(secret) - 1; cut && n > 0; n-- {
		if rest, found := bytes.CutSuffix(text, []byte(secret[:n])); found {
			return rest
		}
	}
	return text
}

// retryAfter returns the time in the header Retry-After (RFC 9110, 10.2.3) of a server that is
// too busy: in seconds, or as a date.
func retryAfter(answer *http.Response, now time.Time) time.Duration {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := answer.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// Lost returns the error of a request to a server that has no whole answer: the same one may
// succeed later. Its text does not have the parameters, which the URL in the cause has.
func Lost(server string, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	return &connectionError{fmt.Errorf("asking %s: %w", server, err)}
}

// Codes of ClickHouse with which this program has something to say.
const (
	codeUnknownColumn = 16
	codeUnknownTable  = 60
)

// connectionError is an error of a request without a whole answer.
type connectionError struct{ error }

// Unwrap returns the cause.
func (e *connectionError) Unwrap() error { return e.error }

// NoTables reports whether the server does not have the tables, or has older ones.
func NoTables(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == codeUnknownTable || e.Code == codeUnknownColumn)
}

// passing returns the codes of errors that pass by themselves: of limits on what runs at
// once, and of the connections between servers.
func passing() []int {
	return []int{
		3,   // UNEXPECTED_END_OF_FILE
		32,  // ATTEMPT_TO_READ_AFTER_EOF
		159, // TIMEOUT_EXCEEDED
		202, // TOO_MANY_SIMULTANEOUS_QUERIES
		203, // NO_FREE_CONNECTION
		209, // SOCKET_TIMEOUT
		210, // NETWORK_ERROR
		225, // NO_ZOOKEEPER
		236, // ABORTED
		241, // MEMORY_LIMIT_EXCEEDED
		242, // TABLE_IS_READ_ONLY
		243, // NOT_ENOUGH_SPACE
		252, // TOO_MANY_PARTS
		279, // ALL_CONNECTION_TRIES_FAILED
		319, // UNKNOWN_STATUS_OF_INSERT
		394, // QUERY_WAS_CANCELLED
		425, // SYSTEM_ERROR
		999, // KEEPER_EXCEPTION
	}
}

// Passes reports whether the same statement may succeed later.
func Passes(err error) bool {
	var lost *connectionError
	if errors.As(err, &lost) {
		return true
	}
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Code != 0 {
		return slices.Contains(passing(), e.Code)
	}
	// Of a proxy before the server.
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Status >= http.StatusInternalServerError
}

// codeOf returns the code in the text of an error of ClickHouse, which begins with "Code: ".
func codeOf(text []byte) int {
	_, rest, found := bytes.Cut(text[:min(len(text), maxPrefix)], []byte("Code: "))
	digits := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !found || digits < 0 {
		return 0
	}
	code, err := strconv.Atoi(string(rest[:digits]))
	if err != nil {
		return 0
	}
	return code
}

// maxPrefix is where the code is at most, after "Poco::Exception. " or nothing.
const maxPrefix = 64

// plain returns a text of a server as one printable line.
func plain(text []byte) string {
	if len(text) > MaxError {
		text = text[:MaxError]
	}
	s := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(text), "?"))
	s, _, _ = strings.Cut(s, ", e.what() = ") // says nothing else
	return strings.TrimSpace(s)
}
