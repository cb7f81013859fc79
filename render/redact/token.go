package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
)

// A token is ten characters of an HMAC-SHA256, 50 bits, and two that check them.
// The check needs no key: it lets a reader distinguish a token from a string that
// happens to look like one.
const (
	alphabet    = "abcdefghijklmnopqrstuvwxyz234567"
	tokenSecret = 10
	tokenCheck  = 2
	tokenSize   = tokenSecret + tokenCheck
	bitsPerChar = 5

	textMark = "~"  // before a token, in text
	nameMark = "x_" // where only letters, digits and _ may stand
)

// appendCheck appends the check of the characters of a token.
func appendCheck(b, secret []byte) []byte {
	sum := xxhash.Sum64(secret)
	for range tokenCheck {
		b = append(b, alphabet[sum%uint64(len(alphabet))])
		sum >>= bitsPerChar
	}
	return b
}

// isToken reports whether b is a token after a mark.
func isToken(b []byte, mark string) bool {
	if len(b) != len(mark)+tokenSize || string(b[:len(mark)]) != mark {
		return false
	}
	b = b[len(mark):]
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= '2' && c <= '7') {
			return false
		}
	}
	var check [tokenCheck]byte
	return string(appendCheck(check[:0], b[:tokenSecret])) == string(b[tokenSecret:])
}

// An address becomes a number that is no address: 4 bits of its class, 12 that
// check, 45 of the address but encrypted, and its lowest 3 as they are.
// render/futex needs them: the lowest bits distinguish the words of one lock,
// the class a range of addresses.
const (
	classFile   = 4 // the identifier of a file: no address, and no secret by itself
	classGoHeap = 5 // below 0xc1_00000000 in Go programs (runtime/malloc.go)
	classUser   = 6
	classLarge  = 7 // 48 bits and more

	lowBits, bodyBits, checkBits = 3, 45, 12
	classShift                   = lowBits + bodyBits + checkBits
	checkShift                   = lowBits + bodyBits
	goHeap                       = 0xc0
)

// Identifier makes a recognisable file identifier of any number: of 48 bits of it,
// after a class and a check as in addresses.
func Identifier(v uint64) uint64 {
	v &= 1<<checkShift - 1
	return classFile<<classShift | checkOf(classFile, v>>lowBits)<<checkShift | v
}

// isIdentifier reports whether a number is what Identifier makes.
func isIdentifier(v uint64) bool { return v == Identifier(v) }

// checkOf returns the check of the body of an address token. It leaves out the
// lowest bits: two words of one lock have tokens that differ in these only.
func checkOf(class, body uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], class<<bodyBits|body)
	return xxhash.Sum64(b[:]) & (1<<checkBits - 1)
}

// IsAddress reports whether a number stands for an address.
func IsAddress(v uint64) bool {
	class, body := v>>classShift, v>>lowBits&(1<<bodyBits-1)
	return class >= classGoHeap && class <= classLarge && v>>checkShift&(1<<checkBits-1) == checkOf(class, body)
}

// IsGoHeap reports whether a number stands for an address in the heap of a Go
// program.
func IsGoHeap(v uint64) bool { return v>>classShift == classGoHeap && IsAddress(v) }

// keySize is the size of a key made here, minKey the least size of a given one.
const keySize, minKey, maxKey = 32, 16, 1 << 20

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return key
}

// ReadKey reads a key: all of a file, at least 16 bytes.
func ReadKey(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, maxKey))
	if err == nil && len(key) < minKey {
		err = fmt.Errorf("%s has %d bytes, a key needs %d", name, len(key), minKey)
	}
	if err != nil {
		return nil, errors.Join(errors.New("reading the key"), err)
	}
	return key, nil
}

// tokens makes tokens.
type tokens struct {
	mac       hash.Hash
	sum       []byte
	texts     map[string]string
	bytes     int // of the strings in texts
	addresses map[uint64]uint64
}

// maxCached bounds each of the caches, maxCachedBytes the strings in one: a trace may
// have no end of strings, and of long ones.
const maxCached, maxCachedBytes = 1 << 15, 4 << 20

func newTokens(key []byte) *tokens {
	return &tokens{mac: hmac.New(sha256.New, key), texts: make(map[string]string), addresses: make(map[uint64]uint64)}
}

// Domains keep tokens of texts and of numbers apart.
const domainText, domainAddress, domainLarge, domainFile = 't', 'a', 'l', 'f'

// secret returns a separate key for identifiers of files.
func (t *tokens) secret() []byte {
	t.mac.Reset()
	_, _ = t.mac.Write([]byte{domainFile})
	return t.mac.Sum(nil)
}

// text returns the token of a string, without a mark.
func (t *tokens) text(p []byte) string {
	if s, ok := t.texts[string(p)]; ok {
		return s
	}
	if len(t.texts) >= maxCached || t.bytes >= maxCachedBytes {
		clear(t.texts)
		t.bytes = 0
	}
	t.mac.Reset()
	_, _ = t.mac.Write([]byte{domainText})
	_, _ = t.mac.Write(p)
	t.sum = t.mac.Sum(t.sum[:0])
	v := binary.LittleEndian.Uint64(t.sum)
	b := make([]byte, 0, tokenSize)
	for range tokenSecret {
		b = append(b, alphabet[v%uint64(len(alphabet))])
		v >>= bitsPerChar
	}
	s := string(appendCheck(b, b))
	t.texts[string(p)] = s
	t.bytes += len(p)
	return s
}

// address returns the token of an address. Up to 48 bits no two have the same
// one.
func (t *tokens) address(v uint64) uint64 {
	if token, ok := t.addresses[v]; ok {
		return token
	}
	if len(t.addresses) >= maxCached {
		clear(t.addresses)
	}
	class, body := uint64(classUser), v>>lowBits
	switch {
	case v>>(lowBits+bodyBits) != 0:
		class, body = classLarge, t.round(domainLarge, 0, body)&(1<<bodyBits-1)
	case v>>32 == goHeap:
		class = classGoHeap
		body = t.permute(body)
	default:
		body = t.permute(body)
	}
	token := class<<classShift | checkOf(class, body)<<checkShift | body<<lowBits | v&(1<<lowBits-1)
	t.addresses[v] = token
	return token
}

// permute encrypts 45 bits: a Feistel network of halves of 22 and 23 bits.
func (t *tokens) permute(v uint64) uint64 {
	const rounds, leftBits, rightBits = 8, 22, 23
	left, right := v>>rightBits, v&(1<<rightBits-1)
	for i := range rounds / 2 {
		left ^= t.round(domainAddress, byte(2*i), right) & (1<<leftBits - 1)
		right ^= t.round(domainAddress, byte(2*i+1), left) & (1<<rightBits - 1)
	}
	return left<<rightBits | right
}

func (t *tokens) round(domain, round byte, v uint64) uint64 {
	var b [10]byte
	b[0], b[1] = domain, round
	binary.LittleEndian.PutUint64(b[2:], v)
	t.mac.Reset()
	_, _ = t.mac.Write(b[:])
	t.sum = t.mac.Sum(t.sum[:0])
	return binary.LittleEndian.Uint64(t.sum)
}
