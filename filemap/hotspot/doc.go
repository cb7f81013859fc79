// Package hotspot finds the callers and the names of Java code in the memory of a process
// that runs OpenJDK's virtual machine, HotSpot, version 17 on x86-64.
//
// libjvm.so exports a description of its own data for debuggers: gHotSpotVMStructs (fields
// and where they are), gHotSpotVMTypes (sizes) and gHotSpotVMIntConstants
// (src/hotspot/share/runtime/vmStructs.cpp). By these the package finds the code cache, the
// code that an address is in, how large its frame is, and which methods it is of. What is
// not described, and the same in all of version 17: the frame of the interpreter
// (src/hotspot/cpu/x86/frame_x86.hpp), that of the stub by which the virtual machine calls
// Java (stubGenerator_x86_64.cpp), and the compressed list of inlined methods
// (src/hotspot/share/code/scopeDesc.cpp, compressedStream.hpp).
//
// The virtual machine moves, frees and replaces code while it is looked at. So code counts
// for a stack only if the memory says the same of it before and after the stack was taken:
// a compilation has a number that no other one gets. The methods of compiled code exist for
// as long as the code does. A method in a frame of the interpreter has to be the same
// before and after, too; else the frame has no name.
//
// The process can have anything in its memory: all that is read is bounded, and nothing is
// followed further than that.
package hotspot
