package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
)

// Scheme begins the address of a server.
const Scheme = "clickhouse://"

// IsAddress reports whether an argument is the address of a server, and not a directory.
// The case of a scheme does not matter (RFC 3986, 3.1).
func IsAddress(text string) bool {
	return len(text) >= len(Scheme) && strings.EqualFold(text[:len(Scheme)], Scheme)
}

// Address is where a server takes queries over HTTP.
type Address struct {
	Host     string // with its port
	Database string
	Secure   bool // TLS
}

// Ports on which ClickHouse has HTTP unless it is configured otherwise.
const (
	plainPort  = "8123"
	securePort = "8443"
)

// errInAddress: no error about an address has its text, as there may be a password in it.
var errInAddress = errors.New("a user or password in an address can be read by every user of this machine: " +
	"they belong in USTACK_CLICKHOUSE_USER and USTACK_CLICKHOUSE_PASSWORD, or in a file: --credentials FILE")

// ParseAddress parses clickhouse://HOST[:PORT][/DATABASE][?secure=true].
func ParseAddress(text string) (*Address, error) {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return nil, errInAddress
	case err != nil || u.Scheme+"://" != Scheme || u.Hostname() == "" || u.Fragment != "":
		return nil, fmt.Errorf("an address is %sHOST[:PORT][/DATABASE][?secure=true]", Scheme)
	}
	a := &Address{Database: strings.TrimPrefix(u.Path, "/")}
	if a.Database == "" {
		a.Database = DefaultDatabase
	}
	if !IsName(a.Database) {
		return nil, fmt.Errorf("%.80q is not the name of a database: letters, digits and _", a.Database)
	}
	for key, values := range u.Query() {
		if key != "secure" || len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return nil, errors.New("an address can have ?secure=true, and nothing else after the ?")
		}
		a.Secure = values[0] == "true"
	}
	port := u.Port()
	switch {
	case port == "" && a.Secure:
		port = securePort
	case port == "":
		port = plainPort
	}
	a.Host = net.JoinHostPort(u.Hostname(), port)
	return a, nil
}

// DefaultDatabase is the database unless one is given.
const DefaultDatabase = "default"

// IsName reports whether a text is a name that SQL needs no quotes for.
func IsName(text string) bool {
	for i, c := range []byte(text) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}

const maxName = 64

// Credentials are those of a user of a server. They have no format: they are not printed.
type Credentials struct{ user, password string }

// User returns the name of the user, "" for the server's default.
func (c *Credentials) User() string { return c.user }

// Password returns the password.
func (c *Credentials) Password() string { return c.password }

// String implements fmt.Stringer.
func (c *Credentials) String() string { return "credentials" }

// GoString implements fmt.GoStringer.
func (c *Credentials) GoString() string { return "credentials" }

// maxCredentials bounds the size of a file with credentials.
const maxCredentials = 4 << 10

// LoadCredentials reads USER:PASSWORD from a file, whose others must not read it. Without a
// file it takes the environment. No error has a part of the file.
func LoadCredentials(file string, getenv func(string) string) (*Credentials, error) {
	if file == "" {
		return checked(getenv("USTACK_CLICKHOUSE_USER"), getenv("USTACK_CLICKHOUSE_PASSWORD"))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	const others = 0o077
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the credentials: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", file)
	case info.Mode().Perm()&others != 0:
		return nil, fmt.Errorf("other users can read or write %s, which has a password: chmod 600", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCredentials))
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	user, password, ok := strings.Cut(strings.TrimRight(string(text), "\r\n"), ":")
	if !ok || user == "" {
		return nil, fmt.Errorf("%s does not have USER:PASSWORD in one line", file)
	}
	return checked(user, password)
}

// checked returns credentials if a header of HTTP can have them.
func checked(user, password string) (*Credentials, error) {
	for _, c := range []byte(user + password) {
		if c < ' ' || c == 0x7f {
			return nil, errors.New("the user or the password has a control character")
		}
	}
	return &Credentials{user, password}, nil
}
