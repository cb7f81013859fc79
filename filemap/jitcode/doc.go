// Package jitcode finds the callers of code that a process has made while it runs, as JIT
// compilers do, and that lies in no file: from the code as it is in the process's memory.
//
// A return address is a frame only if a call stands before it, and the code from there on
// returns from the frame that the frame pointer points to (follow.Framed). Memory is read
// after the stack, when there can be other code. So what was read counts for a stack only if
// it was read before the stack and is the same after it; the first stacks that lead
// through new code end there.
//
// Code of x86-64 only.
package jitcode
