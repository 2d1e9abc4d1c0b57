package disk

import "fmt"

// Config is what one shard's store is built with. Sizes are bytes.
type Config struct {
	Shard       int
	Start       uint64 // number of this start, from the manifest: greater than any before, durable before Open
	DirectoryID [16]byte

	JournalFiles     int   // files of the ring, 2 to 255; 8
	JournalFileBytes int64 // of each; a multiple of 4096. Both come from the manifest and never change for a ring

	DirectBytes int   // a batch at least this long is written data first; 128 KiB
	GroupBytes  int   // greatest commit group, whole blocks; 1 MiB
	StagedBytes int   // staged and not flushed; above it Append answers ErrBusy; 8 MiB
	HotBytes    int64 // placed tail bytes that stay readable from memory, whole shard
	IndexBytes  int   // between two entries of a sparse index; 32 KiB
	StallNanos  int64 // a journal flush older than this makes the shard stalled; 1 s
}

// Config fields at their zero value take these.
const (
	defaultJournalFiles     = 8
	defaultJournalFileBytes = 8 << 20
	defaultDirectBytes      = 128 << 10
	defaultGroupBytes       = 1 << 20
	defaultStagedBytes      = 8 << 20
	defaultHotBytes         = 64 << 20
	defaultIndexBytes       = 32 << 10
	defaultStallNanos       = 1e9
)

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orInt64 := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&c.JournalFiles, defaultJournalFiles)
	orInt64(&c.JournalFileBytes, defaultJournalFileBytes)
	orInt(&c.DirectBytes, defaultDirectBytes)
	orInt(&c.GroupBytes, defaultGroupBytes)
	orInt(&c.StagedBytes, defaultStagedBytes)
	orInt64(&c.HotBytes, defaultHotBytes)
	orInt(&c.IndexBytes, defaultIndexBytes)
	orInt64(&c.StallNanos, defaultStallNanos)
	return c
}

// check refuses a configuration that the formats or the ring cannot hold.
func (c *Config) check() error {
	switch {
	case c.Start == 0:
		return fmt.Errorf("disk: start number 0; the manifest counts starts from 1")
	case c.JournalFiles < 2 || c.JournalFiles > 255:
		return fmt.Errorf("disk: %d journal files; a ring has 2 to 255", c.JournalFiles)
	case c.JournalFileBytes < 4*blockBytes || c.JournalFileBytes%blockBytes != 0 || c.JournalFileBytes > 1<<40:
		return fmt.Errorf("disk: journal files of %d bytes; want a multiple of %d, at least %d", c.JournalFileBytes, blockBytes, 4*blockBytes)
	case c.GroupBytes%blockBytes != 0 || c.GroupBytes < blockBytes || c.GroupBytes > maxGroupBytes:
		return fmt.Errorf("disk: commit groups of %d bytes; want a multiple of %d, at most %d", c.GroupBytes, blockBytes, maxGroupBytes)
	}
	return nil
}
