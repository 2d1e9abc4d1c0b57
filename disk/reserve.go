package disk

import "golang.org/x/sys/unix"

// The reserve is space for what a start must write before it serves, some blocks: the manifest, and where the journal goes
// on. It lies in the data directory and is given up when the disk is full, so that a broker starts there and its records
// can be read, acknowledged and deleted. A later start that finds space makes it again.
const (
	reserveName  = "reserve"
	reserveBytes = 256 << 10
)

// freeReserve says whether there was a reserve to give up.
func (r *root) freeReserve() bool { return unix.Unlinkat(r.fd, reserveName, 0) == nil }

// keepReserve makes the reserve if there is none; without space for it there is none, and nobody is told.
func (r *root) keepReserve() {
	fd, err := r.open(reserveName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return
	}
	err = unix.Fallocate(fd, 0, 0, reserveBytes)
	if closed := unix.Close(fd); err != nil || closed != nil {
		r.freeReserve()
	}
}
