//go:build !device

package help

import "embed"

//go:embed *.md usage/*.txt
var files embed.FS
