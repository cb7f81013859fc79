//go:build device

package doctor

// perfSource checks nothing: this build has no --source=perf.
func (f rightChecks) perfSource() []Check { return nil }
