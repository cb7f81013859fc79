package main

import "ustack/cmd/ustack/internal/signals"

// signalBase is what tests use.
const signalBase = signals.Base
