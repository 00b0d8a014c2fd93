// The places of `places.c` in Go. Its waits are system calls: a goroutine that waits in Go's own
// scheduler, for example in time.Sleep, leaves its thread, whose stack then does not contain it.
//
// usage: places SECONDS
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

var sink uint64

//go:noinline
func computes(length time.Duration) {
	x := uint64(1)
	for begin := time.Now(); time.Since(begin) < length; {
		for i := 0; i < 10000; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	sink = x
}

var long, short = syscall.NsecToTimespec(6000000), syscall.NsecToTimespec(150000)

//go:noinline
func waits_long() {
	_ = syscall.Nanosleep(&long, nil)
	sink++
}

//go:noinline
func waits_short() {
	_ = syscall.Nanosleep(&short, nil)
	sink++
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(2)
	}
	var times [3]time.Duration
	for begin := time.Now(); time.Since(begin).Seconds() < seconds; {
		from := time.Now()
		computes(3 * time.Millisecond)
		computed := time.Now()
		waits_long()
		waited := time.Now()
		for i := 0; i < 8; i++ {
			waits_short()
		}
		times[0] += computed.Sub(from)
		times[1] += waited.Sub(computed)
		times[2] += time.Since(waited)
	}
	for i, name := range []string{"computes", "waits_long", "waits_short"} {
		fmt.Println(name, times[i].Nanoseconds())
	}
}
