package disk

import "syscall"

const errNotExist = syscall.ENOENT

// do submits op and waits for it: for start and stop, when no loop turns. Other ops may complete meanwhile.
func do(dev Device, op Op) (*Op, error) {
	done := false
	op.Done = func(*Op) { done = true }
	dev.Submit(&op)
	for !done {
		if err := dev.Wait(); err != nil {
			return &op, err
		}
	}
	return &op, op.Err
}
