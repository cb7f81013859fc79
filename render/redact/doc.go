// Package redact takes identifying text out of a report: names of tasks, paths
// outside of the system, addresses, all free text. A text becomes the same token
// everywhere in a report, so that whatever can be counted or compared before can
// be after.
//
// It works by an allow-list. A grammar takes every line of a trace apart, and
// text that is not known to be harmless is a secret: numbers, the kernel's own
// words where the kernel puts them, and paths of the system stay. The grammar
// is used twice, by a Redactor, which replaces secrets, and by a Checker, which
// accepts tokens only.
//
// Some data stays: build IDs, offsets and time stamps are what a report is for.
// Numbers of processes and threads stay, too: the kernel hands them out in
// order, they identify nothing outside of one boot, and the values of futexes
// hold them.
package redact
