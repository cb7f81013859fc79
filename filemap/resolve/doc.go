// Package resolve turns a stream of records into records whose frames have
// files. It is where the rules of time live: which mapping event a frame gets,
// how long a record may be buffered for one, which stack belongs to which
// event, and the counts.
//
// A Resolver has parts, each a type with its invariants in its doc comment, and each
// knows only the ones before it: queue (the held batches), losses (where records are
// missing), tasks (threads), bindings (what identifiers mean), texts (frames without one),
// owners (which stack a mapping event belongs to), names (frames with an identifier),
// templates (stacks that are like each other), stitcher (which stack an event has), requests
// (which stacks were asked for), querier (Attributor) and tally (what went out). Each
// part counts for itself; Totals adds up the counts.
package resolve
