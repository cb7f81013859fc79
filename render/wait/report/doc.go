// Package report writes the report of package wait: for people, as one JSON document,
// and as a profile.
package report
