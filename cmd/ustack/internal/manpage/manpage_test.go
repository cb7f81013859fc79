package manpage

import (
	"strings"
	"testing"
)

// TestWrite: each kind of block gets its macros, and nothing in a text becomes a request.
func TestWrite(t *testing.T) {
	p := Page{
		Name: "ustack-x", Section: 1, Summary: "say it's so",
		Help:    "usage: ustack x [FILE]\n       ustack x --live\n\nReports.\n\n  ustack x a\n\n  -q\tquiet\n  --by WHAT\n    \tone\n    \tof two\n",
		Topic:   "# x: y\n\nText with `code-1` and [a page](a.md),\n.so on.\n\n## Part\n\n- one\n  more\n- two\n\n    $ cmd | 'x' \\\n    .dot\n\n| a | b |\n|---|---|\n",
		SeeAlso: []string{"ustack(1)"},
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	const want = `.TH USTACK\-X 1 "" ustack ""
.nh
.ad l
.SH "NAME"
ustack\-x \- say it\(aqs so
.SH "SYNOPSIS"
.nf
ustack x [FILE]
ustack x \-\-live
.fi
.SH "DESCRIPTION"
Reports.
.PP
.RS 4
.nf
ustack x a
.fi
.RE
.SH "OPTIONS"
.TP
\fB\-q\fP
quiet
.TP
\fB\-\-by WHAT\fP
one of two
.SH "MANUAL"
Text with \fBcode\-1\fP and a page,
\&.so on.
.SH "Part"
.IP \(bu 2
one
more
.IP \(bu 2
two
.PP
.RS 4
.nf
$ cmd | \(aqx\(aq \e
\&.dot
.fi
.RE
.PP
.RS 4
.nf
| a | b |
|\-\-\-|\-\-\-|
.fi
.RE
.SH "SEE ALSO"
ustack(1)
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}
