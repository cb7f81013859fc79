//go:build !race

package main

// raceDetector is set if the tests are built with it.
const raceDetector = false
