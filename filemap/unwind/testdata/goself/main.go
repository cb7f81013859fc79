// A Go program that writes its own stacks, with the callers that its runtime
// knows of, in the form of testdata/self.c.
package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"sort"
	"strconv"
	"unsafe"
)

// dump stores the registers by DWARF number.
func dump(regs *[33]uint64)

var (
	out  bytes.Buffer
	sink int
	pcs  [200]uintptr
)

func put(v uint64) { out.Write(binary.LittleEndian.AppendUint64(nil, v)) }

//go:noinline
func write() {
	var regs [33]uint64
	n := runtime.Callers(1, pcs[:])
	dump(&regs)
	sp := regs[7]
	if runtime.GOARCH == "arm64" {
		sp = regs[31]
	}
	for _, r := range regs {
		put(r)
	}
	put(uint64(n))
	put(uint64(pcs[0])) // the place of the call in write itself is another one
	for _, pc := range pcs[1:n] {
		put(uint64(pc))
	}
	const copied = 20000
	put(copied)
	out.Write(unsafe.Slice((*byte)(unsafe.Pointer(uintptr(sp))), copied))
}

type shape interface{ area(n int) int }
type square struct{ pad [20]int }

func (s *square) area(n int) int {
	if n <= 0 {
		write()
		return 1
	}
	switch n % 4 {
	case 0:
		v := []int{3, 1, 2}
		done := false
		sort.Slice(v, func(i, j int) bool {
			if !done {
				done = true
				sink += (&square{}).area(n - 1)
			}
			return v[i] < v[j]
		})
	case 1:
		defer func() { sink++ }()
		return shape(s).area(n-1) + 1
	case 2:
		func() { sink += large(n - 1) }()
	default:
		return shape(s).area(n-1) + 1
	}
	return sink
}

//go:noinline
func large(n int) int {
	var b [100]int
	b[n] = (&square{}).area(n - 1)
	return b[n] + b[n/2]
}

func main() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	put(uint64(len(maps)))
	out.Write(maps)
	times, _ := strconv.Atoi(os.Args[1])
	done := make(chan bool)
	for i := range times {
		go func() {
			var grow [16384]byte // so that the copy is of the stack
			sink += int(grow[i%16384])
			(&square{}).area(i % 6)
			done <- true
		}()
		<-done
	}
	os.Stdout.Write(out.Bytes())
}
