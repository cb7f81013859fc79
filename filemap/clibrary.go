package filemap

import (
	"path"
	"strings"
)

// cLibraries is how the file names of C libraries and dynamic linkers begin:
// glibc's and musl's.
var cLibraries = [...]string{"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl"}

// CLibrary returns how the name of a C library begins, "" if the path is of
// none.
func CLibrary(name string) string {
	base := path.Base(name)
	for _, lib := range cLibraries {
		if strings.HasPrefix(base, lib) {
			return lib
		}
	}
	return ""
}
