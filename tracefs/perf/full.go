//go:build !device

package perf

// asSource: samples can be the records of a trace (SamplerOptions.Raw and Deferred).
const asSource = true
