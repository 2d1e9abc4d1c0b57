package disk

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"unsafe"
)

// opState is a device's share of an Op: where it is and how far. It survives between uses of the Op so that what it
// allocated once stays.
type opState struct {
	busy bool // between Submit and Done
	next *Op  // in an opQueue

	sim  simOp
	ring ringOp
}

// begin checks that the owner gave op away only once and clears the results of its last use.
func (op *Op) begin() {
	if op.state.busy {
		panic(fmt.Sprintf("disk: op kind %d at %d submitted while in flight", op.Kind, op.Pos))
	}
	op.state.busy = true
	op.N, op.Err = 0, nil
	op.Names = op.Names[:0]
}

// finish gives op back to its owner.
func (op *Op) finish(err error) {
	op.Err = err
	op.state.busy = false
	if op.Done != nil {
		op.Done(op)
	}
}

// bytes is the length of all pieces of Data.
func (op *Op) bytes() int {
	n := 0
	for _, p := range op.Data {
		n += len(p)
	}
	return n
}

// namespace says whether op works on names and not on the bytes of an open file.
func (op *Op) namespace() bool {
	switch op.Kind {
	case OpCreate, OpOpen, OpRename, OpRemove, OpSyncDir, OpList:
		return true
	}
	return false
}

// check refuses what no device would do: the kernel would answer the same, but late, or only on some file systems.
func (op *Op) check(alignment int) error {
	if op.Class > ClassCold {
		return syscall.EINVAL
	}
	switch op.Kind {
	case OpRead, OpWrite:
		return op.checkAligned(uintptr(alignment) - 1)
	case OpAllocate, OpTruncate:
		if op.Pos < 0 || op.Size < 0 {
			return syscall.EINVAL
		}
	case OpSync, OpClose, OpStat:
	case OpCreate, OpOpen, OpRemove:
		return checkPath(op.Path)
	case OpSyncDir, OpList:
		if op.Path != "" {
			return checkPath(op.Path)
		}
	case OpRename:
		if checkPath(op.Path) != nil || checkPath(op.NewPath) != nil {
			return syscall.EINVAL
		}
		// Across directories two directory syncs would be needed, with a crash between them.
		if path.Dir(op.Path) != path.Dir(op.NewPath) {
			return syscall.EXDEV
		}
	default:
		return syscall.EINVAL
	}
	return nil
}

func (op *Op) checkAligned(mask uintptr) error {
	if op.Pos < 0 || uintptr(op.Pos)&mask != 0 || len(op.Data) == 0 {
		return syscall.EINVAL
	}
	for _, p := range op.Data {
		if len(p) == 0 || uintptr(len(p))&mask != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(p)))&mask != 0 {
			return syscall.EINVAL
		}
	}
	return nil
}

// checkPath accepts a/b/c as our own code builds it and nothing that could leave the data directory.
func checkPath(p string) error {
	if p == "" || len(p) > 255 || strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "." ||
		p == ".." || strings.HasPrefix(p, "../") || strings.IndexByte(p, 0) >= 0 {
		return syscall.EINVAL
	}
	return nil
}

// parent is the directory of p; "" is the data directory.
func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return ""
}
