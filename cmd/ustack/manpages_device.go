//go:build device

package main

import "errors"

// writeManPages is left out of the build for devices.
func writeManPages(string) error {
	return errors.New("this build for devices (go build -tags device) writes no pages for man(1): ustack help TOPIC prints the manual")
}
