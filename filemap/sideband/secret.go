package sideband

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// With attr.build_id the kernel reads, for each mapping that any process makes,
// the first page of the file if it is in memory (build_id_parse_nofault,
// lib/buildid.c). A page of memfd_secret(2) is in memory, but not mapped into the
// kernel: reading it crashes kernels from 5.14 on that lack 5ac9b4e935df
// ("lib/buildid: Handle memfd_secret() files in build_id_parse()", Linux 6.12),
// and any user can have one. So build IDs are asked for only where that commit is
// known to be, or there is no memfd_secret(2).

// secretFixes are, of each series that was fixed later, its first release with
// that commit. The release of 6.6 is not known.
var secretFixes = [...]struct{ major, minor, patch int }{
	{5, 15, 180}, // review of 5.15.180, message 063/279
	{6, 1, 132},  // ChangeLog-6.1.132
}

// mayAskIDs reports whether the kernel can be asked for build IDs.
func mayAskIDs() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return survivesSecrets(unix.ByteSliceToString(u.Release[:])) || !hasSecrets()
}

// ErrAsking: the kernel cannot be asked for build IDs, by perf or BPF.
var ErrAsking = errors.New("the kernel crashes if it looks for the build ID of a file of memfd_secret(2) (it takes Linux 6.12, 6.1.132 or 5.15.180, or no memfd_secret)")

// CheckAsking returns ErrAsking where the kernel cannot be asked.
func CheckAsking() error {
	if mayAskIDs() {
		return nil
	}
	return ErrAsking
}

// hasSecrets reports whether there is a memfd_secret(2), and it is switched on.
func hasSecrets() bool {
	fd, err := unix.MemfdSecret(unix.FD_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err != unix.ENOSYS
}

// survivesSecrets reports whether a release of the kernel (uname -r) has the fix,
// or no memfd_secret(2). Vendors that do not count as kernel.org does have a 0 in
// the third place.
func survivesSecrets(release string) bool {
	major, minor, patch, final := parseRelease(release)
	for _, f := range secretFixes {
		if f.major == major && f.minor == minor {
			return patch >= f.patch
		}
	}
	switch {
	case major == 5:
		return minor < 14
	case major == 6:
		return minor > 12 || minor == 12 && final
	}
	return major != 0
}

// parseRelease takes a release apart: "6.12.107+deb13-cloud-amd64". It is not
// final if it is a candidate, "6.12.0-rc3". A release that cannot be parsed is
// 0.0.0.
func parseRelease(release string) (major, minor, patch int, final bool) {
	numbers, rest := release, ""
	if end := strings.IndexFunc(release, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }); end >= 0 {
		numbers, rest = release[:end], release[end:]
	}
	fields := strings.Split(strings.TrimSuffix(numbers, "."), ".")
	v := [3]int{}
	for i := range min(len(fields), len(v)) {
		n, err := strconv.ParseUint(fields[i], 10, 16)
		if err != nil {
			return 0, 0, 0, false
		}
		v[i] = int(n)
	}
	return v[0], v[1], v[2], len(fields) > 1 && !strings.HasPrefix(rest, "-rc")
}
