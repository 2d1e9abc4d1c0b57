package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/slipringmq/slipring/fault"
)

// Manifest is what a data directory says about itself. It is read before anything else and written whole, aside and
// renamed, so there is one at any time.
//
// Version 1: one block of 4096 bytes, little-endian. Golden bytes: testdata/manifest_v1.hex.
//
//	at  size  field
//	 0     8  "SLIPRING"
//	 8     4  crc32c (Castagnoli) of bytes [12, 4096)
//	12     1  version; it and the checksum keep their places in every version
//	13     3  reserved, zero
//	16    16  directory id
//	32     8  start number
//	40     4  shards
//	44     4  journal files of a shard
//	48     8  bytes of a journal file
//	56  4040  reserved, zero; a reader refuses anything else
type Manifest struct {
	DirectoryID      [16]byte // random, made with the directory
	Start            uint64   // number of the last start; the first is 1
	Shards           int      // of the last start
	JournalFiles     int      // each shard's ring has files 0 to JournalFiles-1
	JournalFileBytes int64
}

const (
	manifestName  = "manifest"
	manifestAside = "manifest.new"

	manifestMagic   = "SLIPRING"
	manifestVersion = 1
	manifestBytes   = pageBytes

	manifestCRCAt      = 8
	manifestVersionAt  = 12
	manifestZeroAt     = 13
	manifestIDAt       = 16
	manifestStartAt    = 32
	manifestShardsAt   = 40
	manifestFilesAt    = 44
	manifestFileSizeAt = 48
	manifestReservedAt = 56

	manifestShardsMax = 1 << 16
	manifestFilesMax  = 1 << 16
)

// ErrNoManifest: the directory is new: neither a manifest nor anything that needs one.
var ErrNoManifest = errors.New("disk: no manifest")

// BeginStart does what comes first at every start: it reads the manifest, or takes fresh for a new directory, raises the
// start number and makes that durable, so that nothing written from now on can be taken for an older start's. Shards is
// set to fresh's; the journal's shape stays the directory's. before is the manifest as the last start left it, zero for
// a new directory. Blocking: it pumps dev.Wait.
func BeginStart(dev Device, fresh Manifest) (now, before Manifest, err error) {
	before, err = LoadManifest(dev)
	switch {
	case errors.Is(err, ErrNoManifest):
		now = fresh
		now.Start = 0
	case err != nil:
		return Manifest{}, Manifest{}, err
	default:
		now = before
		now.Shards = fresh.Shards
	}
	now.Start++
	if fault.On(fault.Rule05StartNotFirst) {
		return now, before, nil
	}
	return now, before, StoreManifest(dev, now)
}

// LoadManifest reads the manifest.
//
// Errors: ErrNoManifest; ErrDamaged when it is missing from a directory that has data, or its bytes are not those that
// were written; a version that this program does not know.
func LoadManifest(dev Device) (Manifest, error) {
	open, err := do(dev, Op{Kind: OpOpen, Path: manifestName})
	if errors.Is(err, errNotExist) {
		return Manifest{}, missingManifest(dev)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("disk: manifest: open: %w", err)
	}
	block := alignedBlock()
	read, err := do(dev, Op{Kind: OpRead, File: open.File, Data: [][]byte{block}})
	_, closed := do(dev, Op{Kind: OpClose, File: open.File})
	if err = errors.Join(err, closed); err != nil {
		return Manifest{}, fmt.Errorf("disk: manifest: read: %w", err)
	}
	return decodeManifest(block[:read.N])
}

// StoreManifest replaces the manifest; when it returns nil, the new one survives a power cut, else either may.
func StoreManifest(dev Device, m Manifest) error {
	block := alignedBlock()
	if err := m.encode(block); err != nil {
		return err
	}
	if _, err := do(dev, Op{Kind: OpRemove, Path: manifestAside}); err != nil && !errors.Is(err, errNotExist) {
		return fmt.Errorf("disk: manifest: %w", err)
	}
	made, err := do(dev, Op{Kind: OpCreate, Path: manifestAside})
	if err != nil {
		return fmt.Errorf("disk: manifest: create: %w", err)
	}
	_, err = do(dev, Op{Kind: OpWrite, File: made.File, Data: [][]byte{block}, Sync: true})
	_, closed := do(dev, Op{Kind: OpClose, File: made.File})
	if err = errors.Join(err, closed); err != nil {
		return fmt.Errorf("disk: manifest: write: %w", err)
	}
	if _, err := do(dev, Op{Kind: OpRename, Path: manifestAside, NewPath: manifestName}); err != nil {
		return fmt.Errorf("disk: manifest: rename: %w", err)
	}
	if _, err := do(dev, Op{Kind: OpSyncDir}); err != nil {
		return fmt.Errorf("disk: manifest: sync directory: %w", err)
	}
	return nil
}

// missingManifest tells a new directory from one that lost its manifest: taking the second for the first would start
// over on top of acknowledged records.
func missingManifest(dev Device) error {
	list, err := do(dev, Op{Kind: OpList})
	if err != nil {
		return fmt.Errorf("disk: list data directory: %w", err)
	}
	for _, n := range list.Names {
		if fault.On(fault.Rule05NewWithoutManifest) {
			break
		}
		if n == "topics" || strings.HasPrefix(n, "shard-") {
			return fmt.Errorf("%w: manifest is missing, but %s is there; restore the manifest, or choose an empty data directory", ErrDamaged, n)
		}
	}
	return ErrNoManifest
}

func (m *Manifest) encode(block []byte) error {
	if m.Shards < 0 || m.Shards > manifestShardsMax || m.JournalFiles < 0 || m.JournalFiles > manifestFilesMax || m.JournalFileBytes < 0 {
		return fmt.Errorf("disk: manifest: %d shards, %d journal files of %d bytes are out of range", m.Shards, m.JournalFiles, m.JournalFileBytes)
	}
	clear(block)
	copy(block, manifestMagic)
	block[manifestVersionAt] = manifestVersion
	copy(block[manifestIDAt:], m.DirectoryID[:])
	binary.LittleEndian.PutUint64(block[manifestStartAt:], m.Start)
	binary.LittleEndian.PutUint32(block[manifestShardsAt:], uint32(m.Shards))
	binary.LittleEndian.PutUint32(block[manifestFilesAt:], uint32(m.JournalFiles))
	binary.LittleEndian.PutUint64(block[manifestFileSizeAt:], uint64(m.JournalFileBytes))
	binary.LittleEndian.PutUint32(block[manifestCRCAt:], crc32.Checksum(block[manifestVersionAt:], castagnoli))
	return nil
}

func decodeManifest(b []byte) (Manifest, error) {
	if len(b) != manifestBytes || string(b[:len(manifestMagic)]) != manifestMagic {
		return Manifest{}, fmt.Errorf("%w: manifest is not one (%d bytes)", ErrDamaged, len(b))
	}
	if crc32.Checksum(b[manifestVersionAt:], castagnoli) != binary.LittleEndian.Uint32(b[manifestCRCAt:]) {
		return Manifest{}, fmt.Errorf("%w: manifest: wrong checksum", ErrDamaged)
	}
	if v := b[manifestVersionAt]; v != manifestVersion {
		return Manifest{}, fmt.Errorf("disk: manifest: version %d, this program knows version %d; start the release that wrote this directory, or a newer one", v, manifestVersion)
	}
	m := Manifest{
		DirectoryID:      [16]byte(b[manifestIDAt:]),
		Start:            binary.LittleEndian.Uint64(b[manifestStartAt:]),
		Shards:           int(binary.LittleEndian.Uint32(b[manifestShardsAt:])),
		JournalFiles:     int(binary.LittleEndian.Uint32(b[manifestFilesAt:])),
		JournalFileBytes: int64(binary.LittleEndian.Uint64(b[manifestFileSizeAt:])),
	}
	if b[manifestZeroAt]|b[manifestZeroAt+1]|b[manifestZeroAt+2] != 0 || string(b[manifestReservedAt:]) != string(zeroPage[manifestReservedAt:]) {
		return Manifest{}, fmt.Errorf("disk: manifest: version %d with fields this program does not know", manifestVersion)
	}
	if m.Shards > manifestShardsMax || m.JournalFiles > manifestFilesMax || m.JournalFileBytes < 0 || m.Start == 0 {
		return Manifest{}, fmt.Errorf("%w: manifest: values out of range", ErrDamaged)
	}
	return m, nil
}
