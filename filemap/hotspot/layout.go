package hotspot

import (
	"errors"
	"fmt"
)

// ErrVersion: the virtual machine is of another version than 17, or of another kind.
var ErrVersion = errors.New("only OpenJDK 17 on x86-64 is known")

// layout is where the fields are that the package reads: offsets in their structures, of
// static fields their addresses.
type layout struct {
	// Static fields.
	codeHeaps, callStubReturn, interpreter, version uint64

	heapMemory, heapSegmap, heapLog2 int // CodeHeap
	spaceLow, spaceHigh              int // VirtualSpace
	blockLength, blockUsed           int // HeapBlock::Header
	listLength, listData             int // GrowableArray
	queueBuffer, queueLimit          int // StubQueue
	blob                             blobLayout
	nm                               nmethodLayout
	pcOffset, pcScope                int // PcDesc
	mapCount, mapPC                  int // ImmutableOopMapSet, ImmutableOopMapPair
	methodConst, methodFlags         int // Method
	constPool, constSize, constName  int // ConstMethod
	poolHolder, poolLength           int // ConstantPool
	klassName                        int // Klass
	symbolLength, symbolBody         int // Symbol

	// Sizes of the structures.
	heapSize, spaceSize, blockSize, nmethodSize, listSize, queueSize int
	pcSize, mapSetSize, mapPairSize                                  int
	methodSize, constMethodSize, poolSize, klassSize, symbolSize     int
}

// blobLayout is where the fields of a CodeBlob are.
type blobLayout struct {
	name, size, headerSize, frameComplete, frameSize, oopMaps, codeBegin, codeEnd, dataEnd int
}

// nmethodLayout is where those of an nmethod are, and of CompiledMethod before it.
type nmethodLayout struct {
	method, scopesData, deopt, deoptMH                                           int
	entryBCI, state, origPC, metadata, scopesPCs, dependencies, compileID, level int
}

// place is a field that is needed.
type place struct {
	of, field string
	to        *int
	width     int  // in bytes
	size      *int // of what is read to get it
}

// maxStruct bounds the size of a structure.
const maxStruct = 2048

// readLayout finds the fields by the tables of a process.
func readLayout(m Memory, s Symbols) (*layout, error) {
	t, err := readTables(m, s)
	if err != nil {
		return nil, err
	}
	l := new(layout)
	if err := l.statics(t); err != nil {
		return nil, err
	}
	if err := l.is17(t, m); err != nil {
		return nil, err
	}
	for name, to := range l.sizes() {
		n, ok := t.sizes[name]
		if !ok || n == 0 || n > maxStruct {
			return nil, fmt.Errorf("the size of %s is %d: %w", name, n, ErrVersion)
		}
		*to = int(n)
	}
	for _, p := range l.places() {
		off, ok := t.fields[[2]string{p.of, p.field}]
		if !ok || off > uint64(max(*p.size-p.width, 0)) {
			return nil, fmt.Errorf("no field %s::%s: %w", p.of, p.field, ErrVersion)
		}
		*p.to = int(off)
	}
	for _, space := range [...]int{l.heapMemory, l.heapSegmap} { // each is a VirtualSpace
		if max(l.spaceLow, l.spaceHigh)+wordSize+space > l.heapSize {
			return nil, fmt.Errorf("the fields of VirtualSpace: %w", ErrVersion)
		}
	}
	return l, nil
}

// statics finds the static fields.
func (l *layout) statics(t *tables) error {
	for name, to := range map[[2]string]*uint64{
		{"CodeCache", "_heaps"}: &l.codeHeaps, {"StubRoutines", "_call_stub_return_address"}: &l.callStubReturn,
		{"AbstractInterpreter", "_code"}: &l.interpreter, {"JDK_Version", "_current"}: &l.version,
	} {
		addr, ok := t.fields[name]
		if !ok || addr < lowest || addr >= highest {
			return fmt.Errorf("no field %s::%s: %w", name[0], name[1], ErrVersion)
		}
		*to = addr
	}
	return nil
}

// is17 checks the version, and by the constants of its frames that it is of x86-64.
func (l *layout) is17(t *tables, m Memory) error {
	major, ok := t.fields[[2]string{"JDK_Version", "_major"}]
	if !ok || major > maxStruct {
		return fmt.Errorf("no version: %w", ErrVersion)
	}
	b, err := at(m, l.version+major, 1)
	if err != nil {
		return err
	}
	const known = 17
	if b[0] != known {
		return fmt.Errorf("version %d: %w", b[0], ErrVersion)
	}
	for name, want := range map[string]int32{
		"frame::interpreter_frame_sender_sp_offset": senderSP, "frame::interpreter_frame_last_sp_offset": lastSP,
		"frame::entry_frame_call_wrapper_offset": callWrapper, "oopSize": wordSize,
	} {
		if got, ok := t.constants[name]; !ok || got != want {
			return fmt.Errorf("%s is %d: %w", name, got, ErrVersion)
		}
	}
	return nil
}

func (l *layout) sizes() map[string]*int {
	return map[string]*int{
		"CodeHeap": &l.heapSize, "VirtualSpace": &l.spaceSize, "HeapBlock": &l.blockSize, "nmethod": &l.nmethodSize, "PcDesc": &l.pcSize,
		"ImmutableOopMapSet": &l.mapSetSize, "ImmutableOopMapPair": &l.mapPairSize, "Method": &l.methodSize,
		"ConstMethod": &l.constMethodSize, "ConstantPool": &l.poolSize, "Klass": &l.klassSize, "Symbol": &l.symbolSize,
		"GrowableArray<int>": &l.listSize, "StubQueue": &l.queueSize,
	}
}

func (l *layout) places() []place {
	b, n := &l.blob, &l.nm
	return []place{
		{"CodeHeap", "_memory", &l.heapMemory, 0, &l.heapSize}, {"CodeHeap", "_segmap", &l.heapSegmap, 0, &l.heapSize},
		{"CodeHeap", "_log2_segment_size", &l.heapLog2, 4, &l.heapSize},
		{"VirtualSpace", "_low", &l.spaceLow, 8, &l.spaceSize}, {"VirtualSpace", "_high", &l.spaceHigh, 8, &l.spaceSize},
		{"HeapBlock::Header", "_length", &l.blockLength, 8, &l.blockSize}, {"HeapBlock::Header", "_used", &l.blockUsed, 1, &l.blockSize},
		{"GrowableArrayBase", "_len", &l.listLength, 4, &l.listSize}, {"GrowableArray<int>", "_data", &l.listData, 8, &l.listSize},
		{"StubQueue", "_stub_buffer", &l.queueBuffer, 8, &l.queueSize}, {"StubQueue", "_buffer_limit", &l.queueLimit, 4, &l.queueSize},
		{"CodeBlob", "_name", &b.name, 8, &l.nmethodSize}, {"CodeBlob", "_size", &b.size, 4, &l.nmethodSize},
		{"CodeBlob", "_header_size", &b.headerSize, 4, &l.nmethodSize}, {"CodeBlob", "_frame_size", &b.frameSize, 4, &l.nmethodSize},
		{"CodeBlob", "_frame_complete_offset", &b.frameComplete, 4, &l.nmethodSize}, {"CodeBlob", "_oop_maps", &b.oopMaps, 8, &l.nmethodSize},
		{"CodeBlob", "_code_begin", &b.codeBegin, 8, &l.nmethodSize}, {"CodeBlob", "_code_end", &b.codeEnd, 8, &l.nmethodSize},
		{"CodeBlob", "_data_end", &b.dataEnd, 8, &l.nmethodSize},
		{"CompiledMethod", "_method", &n.method, 8, &l.nmethodSize}, {"CompiledMethod", "_scopes_data_begin", &n.scopesData, 8, &l.nmethodSize},
		{"CompiledMethod", "_deopt_handler_begin", &n.deopt, 8, &l.nmethodSize},
		{"CompiledMethod", "_deopt_mh_handler_begin", &n.deoptMH, 8, &l.nmethodSize},
		{"nmethod", "_entry_bci", &n.entryBCI, 4, &l.nmethodSize}, {"nmethod", "_state", &n.state, 1, &l.nmethodSize},
		{"nmethod", "_orig_pc_offset", &n.origPC, 4, &l.nmethodSize}, {"nmethod", "_metadata_offset", &n.metadata, 4, &l.nmethodSize},
		{"nmethod", "_scopes_pcs_offset", &n.scopesPCs, 4, &l.nmethodSize}, {"nmethod", "_dependencies_offset", &n.dependencies, 4, &l.nmethodSize},
		{"nmethod", "_compile_id", &n.compileID, 4, &l.nmethodSize}, {"nmethod", "_comp_level", &n.level, 4, &l.nmethodSize},
		{"PcDesc", "_pc_offset", &l.pcOffset, 4, &l.pcSize}, {"PcDesc", "_scope_decode_offset", &l.pcScope, 4, &l.pcSize},
		{"ImmutableOopMapSet", "_count", &l.mapCount, 4, &l.mapSetSize}, {"ImmutableOopMapPair", "_pc_offset", &l.mapPC, 4, &l.mapPairSize},
		{"Method", "_constMethod", &l.methodConst, 8, &l.methodSize}, {"Method", "_access_flags", &l.methodFlags, 4, &l.methodSize},
		{"ConstMethod", "_constants", &l.constPool, 8, &l.constMethodSize}, {"ConstMethod", "_code_size", &l.constSize, 2, &l.constMethodSize},
		{"ConstMethod", "_name_index", &l.constName, 2, &l.constMethodSize}, {"ConstantPool", "_pool_holder", &l.poolHolder, 8, &l.poolSize},
		{"ConstantPool", "_length", &l.poolLength, 4, &l.poolSize}, {"Klass", "_name", &l.klassName, 8, &l.klassSize},
		{"Symbol", "_length", &l.symbolLength, 2, &l.symbolSize}, {"Symbol", "_body[0]", &l.symbolBody, 1, &l.symbolSize},
	}
}
