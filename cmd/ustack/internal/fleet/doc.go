// Package fleet has what the programs ustack and ustack-fleet share about reports of many
// devices: flags, what the columns of the tables mean, and the questions as SQL.
//
// The engine is in ustack-fleet, a module of its own in cmd/ustack/ustack-fleet: the recorder
// on a device needs nothing of it.
package fleet
