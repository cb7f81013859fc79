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

// Address is where a server takes requests over HTTP.
type Address struct {
	Kind     Kind
	Host     string // with its port
	Database string // of ClickHouse
	Secure   bool   // TLS
	Ingest   bool   // of Pyroscope: its older API, /ingest
}

// Kind is a kind of server, as the scheme of an address has it.
type Kind string

// The kinds of servers.
const (
	KindClickHouse Kind = "clickhouse"
	KindOTLP       Kind = "otlp"
	KindPyroscope  Kind = "pyroscope"
)

// ports returns the ports that a server has for HTTP unless it is configured otherwise.
func (k Kind) ports() (plain, secure string) {
	switch k {
	case KindOTLP:
		return "4318", "4318"
	case KindPyroscope:
		return "4040", "443"
	}
	return "8123", "8443"
}

// Variables returns the environment variables with the credentials.
func (k Kind) Variables() (user, password string) {
	prefix := "USTACK_" + strings.ToUpper(string(k))
	return prefix + "_USER", prefix + "_PASSWORD"
}

// errInAddress: no error about an address has its text, as there may be a password in it.
func errInAddress(k Kind) error {
	user, password := k.Variables()
	return fmt.Errorf("a user or password in an address can be read by every user of this machine: they belong in %s and %s, or in a file: --credentials FILE", user, password)
}

// ParseAddress parses clickhouse://HOST[:PORT][/DATABASE][?secure=true].
func ParseAddress(text string) (*Address, error) { return parseAddress(text, KindClickHouse) }

// ParseTarget parses the address of a server that reports are pushed to; those of OTLP and
// Pyroscope have no database.
func ParseTarget(text string) (*Address, error) {
	scheme, _, _ := strings.Cut(text, "://")
	for _, k := range []Kind{KindOTLP, KindPyroscope} {
		if strings.EqualFold(scheme, string(k)) {
			return parseAddress(text, k)
		}
	}
	return ParseAddress(text)
}

func parseAddress(text string, kind Kind) (*Address, error) {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return nil, errInAddress(kind)
	case kind != KindClickHouse && (err != nil || Kind(u.Scheme) != kind || u.Hostname() == "" || u.Fragment != "" || !kind.has(u.Path)):
		return nil, fmt.Errorf("an address is %s://HOST[:PORT]%s[?secure=true]", kind, map[Kind]string{KindPyroscope: "[" + ingest + "]"}[kind])
	case err != nil || Kind(u.Scheme) != kind || u.Hostname() == "" || u.Fragment != "":
		return nil, fmt.Errorf("an address is %sHOST[:PORT][/DATABASE][?secure=true]", Scheme)
	}
	a := &Address{Kind: kind, Ingest: kind == KindPyroscope && u.Path == ingest}
	if kind == KindClickHouse {
		if a.Database = strings.TrimPrefix(u.Path, "/"); a.Database == "" {
			a.Database = DefaultDatabase
		}
		if !IsName(a.Database) {
			return nil, fmt.Errorf("%.80q is not the name of a database: letters, digits and _", a.Database)
		}
	}
	for key, values := range u.Query() {
		if key != "secure" || len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return nil, errors.New("an address can have ?secure=true, and nothing else after the ?")
		}
		a.Secure = values[0] == "true"
	}
	port := u.Port()
	plain, secure := kind.ports()
	switch {
	case port == "" && a.Secure:
		port = secure
	case port == "":
		port = plain
	}
	a.Host = net.JoinHostPort(u.Hostname(), port)
	return a, nil
}

// ingest is the path of Pyroscope's older API.
const ingest = "/ingest"

// has reports whether an address of a server of profiles may have a path.
func (k Kind) has(path string) bool {
	return strings.Trim(path, "/") == "" || k == KindPyroscope && path == ingest
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
	return KindClickHouse.Credentials(file, getenv)
}

// Credentials reads the credentials for a kind of server, as LoadCredentials does.
func (k Kind) Credentials(file string, getenv func(string) string) (*Credentials, error) {
	if file == "" {
		user, password := k.Variables()
		return checked(getenv(user), getenv(password))
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
