package tracefs

// How is how a frame of a stack was found that ustack has unwound itself.
type How uint8

// The ways.
const (
	// ByKernel: the kernel gave it, or another program's text.
	ByKernel How = iota
	// ByRegisters: the thread was there.
	ByRegisters
	// ByCFI: by .eh_frame or .debug_frame.
	ByCFI
	// BySFrame: by .sframe.
	BySFrame
	// ByGoTable: by the table of Go's runtime.
	ByGoTable
	// ByFramePointer: where there is no table.
	ByFramePointer
	// BySignal: by the registers that the kernel kept for a signal handler.
	BySignal
	// ByBlocked: in the memory of the thread while it waited.
	ByBlocked
	// ByVirtualMachine: by the memory of a virtual machine whose code the frame before it
	// is.
	ByVirtualMachine
	// ByCode: by the code itself, which no table describes.
	ByCode

	howCount
)

var howWords = [howCount]string{"kernel", "registers", "cfi", "sframe", "gotable", "fp", "signal", "blocked", "hotspot", "code"}

// String returns the word used in all outputs.
func (h How) String() string { return howWords[min(h, howCount-1)] }

// ParseHow returns the How that has a word.
func ParseHow(word []byte) (h How, ok bool) {
	at := wordIndex(howWords[:], word)
	return How(max(at, 0)), at >= 0
}

// Stop is why a stack that ustack has unwound itself ends where it does.
type Stop uint8

// The reasons.
const (
	NoStop  Stop = iota // it does not end with this frame, or that is not known
	AtRoot              // nothing has called the last frame
	AtCopy              // of the thread's stack, no more was copied
	AtFile              // the last frame's file says nothing about its code
	AtNoMap             // the next address is not known to be code
	AtContradiction
	AtLimit    // there are more frames than are kept
	AtRegister // a register is needed that is not known
	AtOtherStack
	AtSwitch // the code of the last frame goes from one stack to another

	stopCount
)

// StopCount is the number of reasons, NoStop included.
const StopCount = int(stopCount)

var stopWords = [stopCount]string{"", "root", "copy-too-short", "no-unwind-information", "no-map", "contradiction", "limit", "unknown-register", "other-stack", "stack-switch"}

// String returns the word used in all outputs.
func (s Stop) String() string { return stopWords[min(s, stopCount-1)] }

// ParseStop returns the Stop that has a word; NoStop has none.
func ParseStop(word []byte) (s Stop, ok bool) {
	at := wordIndex(stopWords[1:], word)
	return Stop(at + 1), at >= 0
}

// noted is what ustack has noted of a frame, in one byte, as there are many frames: how it
// was found and why the stack ends with it, or inferred; 0 for what the kernel has unwound.
type noted uint8

const inferred noted = 1 + noted(howCount-1)*noted(StopCount) // after all others

// Inferred reports whether the kernel did not give the frame: an earlier run of ustack has
// put it there.
func (f *Frame) Inferred() bool { return f.noted == inferred }

// SetInferred notes whether an earlier run of ustack has put the frame there.
func (f *Frame) SetInferred(is bool) {
	f.noted = 0
	if is {
		f.noted = inferred
	}
}

// Unnote forgets all that ustack has noted of a frame.
func (f *Frame) Unnote() { f.noted, f.mark = 0, NoMark }

// SetUnwound notes how a frame was found, and why the stack ends with it. A frame of
// the kernel's has no stop.
func (f *Frame) SetUnwound(how How, stop Stop) {
	f.noted = 0
	if how != ByKernel {
		f.noted = noted(how-1)*noted(StopCount) + noted(stop) + 1
	}
}

// Unwound returns how a frame was found, and why the stack ends with it;
// ByKernel and NoStop for what the kernel has unwound, and for what was inferred.
func (f *Frame) Unwound() (How, Stop) {
	if f.noted == 0 || f.noted == inferred {
		return ByKernel, NoStop
	}
	n := f.noted - 1
	return How(n/noted(StopCount)) + 1, Stop(n % noted(StopCount))
}

// Mark returns what an earlier run of ustack has written about the frame's
// file.
func (f *Frame) Mark() Mark { return f.mark }

// SetMark notes a Mark.
func (f *Frame) SetMark(m Mark) { f.mark = m }

// Interrupted reports whether a signal has interrupted the thread at the frame's
// address: it is no return address.
func (f *Frame) Interrupted() bool {
	how, _ := f.Unwound()
	return how == BySignal
}

// Followed reports whether ustack has found a frame by what is before it in the stack:
// then no function is missing between the two.
func (f *Frame) Followed() bool {
	how, _ := f.Unwound()
	return how != ByKernel
}

// wordIndex returns where a word is in a list, -1 if it is not there.
func wordIndex(list []string, word []byte) int {
	for i := range list {
		if string(word) == list[i] {
			return i
		}
	}
	return -1
}
