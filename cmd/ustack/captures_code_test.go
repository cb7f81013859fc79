package main

// captureCode holds named frames against the machine code: a return address follows a
// call. Code without frame pointers leaves any values on the stack, so this is asked of
// all return addresses that a thread has in a file.
type captureCode struct {
	files map[string]*checkFile // by root and path
}

func newCaptureCode() *captureCode { return &captureCode{files: map[string]*checkFile{}} }

// file is the file that a path stands for in a capture, nil if it is not at hand.
func (c *captureCode) file(in captureInput, path string) *checkFile {
	if !in.hasELF(path) {
		return nil
	}
	f, ok := c.files[in.elf+path]
	if !ok {
		f = checkOpen(in.elf, path)
		c.files[in.elf+path] = f
	}
	return f
}

// check reports a thread's frames in a file if most of the return addresses do not follow
// a call there.
func (c *captureCode) check(wrong *captureWrong, in captureInput, stacks []captureStack) {
	if in.elf == "" {
		return
	}
	type group struct {
		tid  int
		path string
	}
	seen := map[group]checkSet{}
	for _, s := range stacks {
		for k, f := range s.frames {
			if f.Path == "" || f.Trust == "claimed" || k == 0 || c.file(in, f.Path) == nil {
				continue
			}
			g := group{s.tid, f.Path}
			if seen[g] == nil {
				seen[g] = checkSet{}
			}
			seen[g][uint64(f.Offset)] = true
		}
	}
	for g, offsets := range seen {
		hits := 0
		for off := range offsets {
			if c.file(in, g.path).afterCall(off) {
				hits++
			}
		}
		if len(offsets) >= 3 && hits*2 < len(offsets) {
			wrong.t.Errorf("%s: thread %d: of %d return addresses in %s only %d follow a call", wrong.name, g.tid, len(offsets), g.path, hits)
		}
	}
}
