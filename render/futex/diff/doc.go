// Package diff compares two reports of the futexes of one program: which locks threads
// wait for longer, which less, which are new or gone.
//
// Read takes a report's JSON document, Of a report itself, by way of that document: both
// give the same. Compare aligns what two reports have. Addresses, PIDs and numbers in names
// of threads play no role in that:
//
//   - A lock that is a static variable, or has a role such as GIL, is known by that name, if
//     both reports have such names.
//   - The waits for all others are known by the function of the program that waits, and by
//     the build ID and offset where that has no name. A name that only one report has holds
//     for the other one if build ID and offset are the same.
//   - Where an optimizer can have inlined a function, and no line information shows it, the
//     waits in it are put together with those in its caller.
//
// What has no name and another build ID cannot be aligned. Such waits could be any of the
// others, so they make these uncertain, as lost records do, and locks that a report does not
// list.
//
// Chance: the time of a trace is divided into up to 32 slices. How much the waiting differs
// between these, and from wait to wait, gives the standard error of each sum. A difference
// counts if a t test (Welch) finds it at 1 %, divided by the number of tests, and if it is
// not smaller than a threshold, as runs differ by more than what happens within them.
package diff
