# Copyright 2026 the ustack authors
# Distributed under the terms of the MIT license

EAPI=7

CROS_WORKON_PROJECT="chromiumos/third_party/ustack"
CROS_WORKON_LOCALNAME="third_party/ustack"
# GOPATH of cros-go: the module is where its path says.
CROS_WORKON_DESTDIR="${S}/src/ustack"

CROS_GO_WORKSPACE="${S}"
CROS_GO_BINARIES=(
	"ustack/cmd/ustack:/usr/sbin/ustack"
)
CROS_GO_TEST=(
	"ustack/tracefs/..."
	"ustack/filemap/..."
	"ustack/render/..."
)

inherit cros-workon cros-go

DESCRIPTION="User-space stacks in ftrace output, resolved to files, and who waits for which lock"
HOMEPAGE="https://chromium.googlesource.com/chromiumos/third_party/ustack/"

# What ustack imports, at the versions of its go.sum: cmd/ustack/packaging/vendor makes the
# tarball, to be uploaded to the mirror, and this file with its name.
USTACK_VENDOR="@VENDOR@"
SRC_URI="gs://chromeos-localmirror/distfiles/${USTACK_VENDOR}"

LICENSE="MIT BSD Apache-2.0"
SLOT="0"
KEYWORDS="~*"
IUSE=""
RESTRICT="strip"

RDEPEND=""
DEPEND=""

src_unpack() {
	cros-workon_src_unpack
	cd "${S}/src/ustack" || die
	unpack "${USTACK_VENDOR}"
}

src_compile() {
	# The build for devices: a static program, without what a workstation does better. The
	# profile for the compiler is of reading perf.data, which it leaves out. Inlining in the
	# demangler and in the commands makes the program larger by a fiftieth, and not faster.
	export CGO_ENABLED=0 GOFLAGS="-tags=device -trimpath -pgo=off -gcflags=.../vendor/.../demangle=-l -gcflags=ustack/cmd/...=-l -ldflags=-s"
	cros-go_src_compile
}

src_test() {
	# All of the packages, also what the build for devices leaves out: tests of one part need
	# others. Tests that trace say that they are skipped without tracefs.
	GOFLAGS="" cros-go_src_test
}

src_install() {
	cros-go_src_install
	dodoc src/ustack/README.md
}
