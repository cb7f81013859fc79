package symbol

import (
	"strings"

	"ustack/filemap"
)

// Try is one place where a file was looked for, and the result.
type Try struct {
	Path   string
	Result string
}

// ShortHex returns a build ID as files are named after it. Its length is not
// known; IDs of 16 and 8 bytes are common, and end in zeros here.
func ShortHex(id filemap.BuildID) string {
	hex := id.Hex()
	for _, n := range []int{8, 16} {
		if len(hex) > 2*n && strings.Trim(hex[2*n:], "0") == "" {
			return hex[:2*n]
		}
	}
	return hex
}
