// Package watch watches the directories of mapped files, so that a build ID
// that was read once is not taken for the ID of the file that has replaced it.
//
// A file is first unlinked or renamed over and only then can its inode number
// go to another one, and the kernel queues the event within that system call.
// fsnotify hands events over some time later; Drain waits until it has handed
// over all that were queued before. So a caller that drains, and then finds an
// answer still remembered, can rely on it.
//
// Two changes of a file in place are not seen, because inotify(7) does not report
// them: through a shared mapping, and through a hard link in another directory that
// was made after the file began to be watched.
package watch
