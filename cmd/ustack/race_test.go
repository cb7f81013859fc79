//go:build race

package main

// raceDetector is set if the tests are built with it: it needs memory itself,
// several times as much as the program.
const raceDetector = true
