package futex

import "ustack/render/stackset"

// Frame, Stack and the numbers in place of a stack are those of package stackset.
type (
	Frame  = stackset.Frame
	Stack  = stackset.Stack
	stacks = stackset.Set
)

const (
	noStack     = stackset.None
	otherStacks = stackset.Other
)
