package slipring

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nameThread names the calling thread for top, perf and strace: prctl(2), PR_SET_NAME, at most 15 bytes. The main thread
// keeps its name, which is the whole process's to others. Without a name nothing is lost, so no error is reported.
func nameThread(shard int) {
	if unix.Gettid() == unix.Getpid() {
		return
	}
	name := append(fmt.Appendf(nil, "shard-%02d", shard), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
}
