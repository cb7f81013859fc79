// Package top shows on a full screen who waits for which lock, while the trace goes on.
//
// The goroutine of the analysis makes snapshots, which nothing changes afterwards, and hands
// them over without waiting (mailbox). The screen is a model that messages change: keys,
// snapshots and sizes of the terminal; what it shows follows from the model alone. What it
// wants of the analysis, such as the text of a lock, it leaves in its wishes, which the
// analysis looks at now and then. So a terminal that takes nothing stops the screen, and
// not the analysis.
//
//	sink.go, window.go, take.go   the goroutine of the analysis
//	mailbox.go, wishes.go         between the two
//	model.go, update.go, view.go  the screen
package top
