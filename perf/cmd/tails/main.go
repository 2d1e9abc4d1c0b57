// Command tails measures the two forms that a partition's tail could have (docs/decisions/0001-tails.md).
//
//	blocks  each partition's tail is memory of its own, laid out as its segment: an append is copied to the tail and to
//	        the journal image; the segment is written from the tail as it is.
//	slices  a tail is a list of slices of journal images: an append is copied to the image only, and once more when it is
//	        gathered for the segment.
//
// It prints nanoseconds per append for memory work alone (no disk), and MiB/s of sending a tail of small batches to a
// loopback connection as one piece or as one iovec per batch. Both forms take turns in one run; medians are printed.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	imageBytes = 1 << 20   // a commit group's image
	pieceBytes = 256 << 10 // what is written to a segment at once
	sendPieces = 512       // iovecs of one send, below the kernel's 1024
)

func main() {
	var (
		size    = flag.Int("size", 330, "bytes of a batch")
		appends = flag.Int("appends", 2_000_000, "appends a run")
		pairs   = flag.Int("pairs", 5, "runs of each form, taking turns")
	)
	flag.Parse()
	batch := make([]byte, *size)
	for i := range batch {
		batch[i] = byte(i)
	}
	fmt.Printf("%-34s %10s %10s %8s\n", "", "blocks", "slices", "ratio")
	for _, partitions := range []int{1, 128, 1000} {
		var blocks, list []float64
		for range *pairs {
			blocks = append(blocks, tailBlocks(batch, partitions, *appends))
			list = append(list, tailSlices(batch, partitions, *appends))
		}
		report(fmt.Sprintf("append, %d partitions, ns", partitions), blocks, list)
	}
	var blocks, list []float64
	for range *pairs {
		b, err := send(batch, false)
		if err == nil {
			blocks = append(blocks, b)
			b, err = send(batch, true)
			list = append(list, b)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "tails: %v\n", err)
			os.Exit(1)
		}
	}
	report("send to a loopback socket, MiB/s", blocks, list)
}

func report(name string, blocks, list []float64) {
	slices.Sort(blocks)
	slices.Sort(list)
	b, l := blocks[len(blocks)/2], list[len(list)/2]
	fmt.Printf("%-34s %10.1f %10.1f %8.2f\n", name, b, l, b/l)
}

// tailBlocks copies each append into its partition's tail and into the journal image. A full tail goes to its segment as
// it is, so nothing is copied for that.
func tailBlocks(batch []byte, partitions, appends int) float64 {
	images := mapped(journalBytes(partitions))
	tails := mapped(partitions * pieceBytes)
	fill := make([]int, partitions)
	at := 0
	began := time.Now()
	for i := range appends {
		p := i % partitions
		if fill[p]+len(batch) > pieceBytes {
			fill[p] = 0
		}
		copy(tails[p*pieceBytes+fill[p]:], batch)
		fill[p] += len(batch)
		at = place(images, at, batch)
	}
	return perAppend(began, appends, images, tails)
}

// tailSlices copies each append into the journal image and keeps where; a full list is gathered into an aligned piece.
func tailSlices(batch []byte, partitions, appends int) float64 {
	images := mapped(journalBytes(partitions))
	piece := mapped(pieceBytes)
	lists := make([][]int, partitions)
	at := 0
	began := time.Now()
	for i := range appends {
		p := i % partitions
		next := place(images, at, batch)
		if (len(lists[p])+1)*len(batch) > pieceBytes {
			to := 0
			for _, from := range lists[p] {
				to += copy(piece[to:], images[from:from+len(batch)])
			}
			lists[p] = lists[p][:0]
		}
		lists[p] = append(lists[p], next-len(batch))
		at = next
	}
	return perAppend(began, appends, images, piece)
}

// journalBytes keeps every byte in the journal until its partition's piece is full.
func journalBytes(partitions int) int { return (partitions+8)*pieceBytes + imageBytes }

func place(images []byte, at int, batch []byte) int {
	if at+len(batch) > len(images) {
		at = 0
	}
	return at + copy(images[at:], batch)
}

func perAppend(began time.Time, appends int, maps ...[]byte) float64 {
	took := float64(time.Since(began).Nanoseconds()) / float64(appends)
	for _, m := range maps {
		_ = unix.Munmap(m)
	}
	return took
}

// mapped returns touched memory outside the Go heap.
func mapped(n int) []byte {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tails: map %d bytes: %v\n", n, err)
		os.Exit(1)
	}
	return m
}

// send writes 1 GiB of batches to a loopback connection whose other end discards them.
func send(batch []byte, perBatch bool) (mibPerSecond float64, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, c)
			c.Close()
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	whole := make([]byte, 0, sendPieces*len(batch))
	for range sendPieces {
		whole = append(whole, batch...)
	}
	const total = 1 << 30
	began := time.Now()
	for sent := 0; sent < total; sent += len(whole) {
		pieces := net.Buffers{whole}
		if perBatch {
			pieces = pieces[:0]
			for i := range sendPieces {
				pieces = append(pieces, whole[i*len(batch):(i+1)*len(batch)])
			}
		}
		if _, err := pieces.WriteTo(c); err != nil {
			return 0, err
		}
	}
	c.Close()
	err = <-done
	return total / float64(1<<20) / time.Since(began).Seconds(), err
}
