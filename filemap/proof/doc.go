// Package proof has the rules by which the file of a frame is proven. They hold for
// exact histories of address spaces (timeline) and for histories of which dumps
// show moments (observed).
//
// A statement has a scope: a process, a place and a time. The statements are
//
//   - the kernel looked at this mapping because of this very stack, and said
//     that it is this file (an owned mapping event);
//   - the process had this mapping, in this place, from then until then;
//   - a raw address lies in it;
//   - the identifier of a mapping is this one (a pin): two mappings with
//     different identifiers at one time are of different open files, and a
//     mapping keeps its open file for as long as it stays;
//   - the identifier is the file's own device and inode;
//   - the frame lies in one of the file mappings of the process, all of which
//     are known at that time (exclusion).
//
// Pins keeps the pins and says what follows from them: which mapping an identifier means
// at a time (At, Through), which cannot carry it (Excluded), which is left (Only), and
// what becomes of a claim (Claim). Histories feed it with statements and say what they
// know of mappings (Mappings).
//
// Decide decides what becomes of a frame: which statement about it counts, and what
// file, trust or reason it gets by that. A history is its Witness.
//
// A raw address needs no identifier: Address gathers what the process had there at the
// moments at which the stack can have been made, and its Decide has the rules.
//
// A claim, what the kernel announced because of another stack, is no
// statement: it can only be confirmed by them, or contradicted.
package proof
