//go:build !race

package main

// raceDetector tells that the tests are built with it.
const raceDetector = false
