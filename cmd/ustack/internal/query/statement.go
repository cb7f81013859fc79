package query

import (
	"errors"
	"strings"
)

// MaxSQL is how long a query may be, in bytes.
const MaxSQL = 1 << 16

// CheckSQL returns an error if a query is empty, too long, or more than one statement:
// the answer would be of one of them only.
func CheckSQL(sql string) error {
	if len(sql) > MaxSQL {
		return errors.New("the query is longer than 64 KiB")
	}
	rest := skipBlank(sql)
	if rest == "" {
		return errors.New("the query is empty")
	}
	for rest != "" {
		if rest[0] == ';' {
			if skipBlank(rest[1:]) != "" {
				return errors.New("the query has more than one statement")
			}
			return nil
		}
		rest = skipBlank(rest[tokenEnd(rest):])
	}
	return nil
}

// skipBlank skips blanks and comments (https://www.sqlite.org/lang_comment.html).
func skipBlank(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\n\f\r")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		default:
			return sql
		}
	}
}

// tokenEnd returns where the quoted text or the byte at the beginning ends.
func tokenEnd(sql string) int {
	quote := sql[0]
	switch quote {
	case '[':
		quote = ']'
	case '\'', '"', '`':
	default:
		return 1
	}
	n := strings.IndexByte(sql[1:], quote)
	if n < 0 {
		return len(sql)
	}
	return n + 2 // a doubled quote begins the next one
}
