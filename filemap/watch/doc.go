// Package watch watches the directories of mapped files with inotify(7), so
// that a build ID that was asked for once is not taken for that of the file
// which has replaced it.
//
// There is no goroutine: Drain handles what the kernel has queued. A file is
// first unlinked or renamed over and only then can its inode number go to
// another one, and the kernel queues the event within that system call. So who
// drains, and then finds an answer still remembered, can rely on it.
package watch
