package disk

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"syscall"
	"testing"
)

var goldenManifest = Manifest{
	DirectoryID:      [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	Start:            0x0102030405060708,
	Shards:           4,
	JournalFiles:     8,
	JournalFileBytes: 8 << 20,
}

// The file holds the bytes up to the reserved ones, which are zero up to 4096.
func TestManifestGoldenBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/manifest_v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	golden := make([]byte, manifestBytes)
	digits := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits += strings.Join(strings.Fields(line), "")
	}
	if _, err := hex.Decode(golden, []byte(digits)); err != nil {
		t.Fatal(err)
	}
	block := alignedBlock()
	if err := goldenManifest.encode(block); err != nil {
		t.Fatal(err)
	}
	if string(block) != string(golden) {
		t.Errorf("encoded\n%x, want\n%x", block[:manifestReservedAt], golden[:manifestReservedAt])
	}
	if m, err := decodeManifest(golden); err != nil || m != goldenManifest {
		t.Errorf("decoded %+v, %v", m, err)
	}
}

// No single changed byte and no other length passes for a manifest.
func TestManifestRefusesEveryChange(t *testing.T) {
	good := alignedBlock()
	if err := goldenManifest.encode(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			good[i] ^= mask
			if m, err := decodeManifest(good); err == nil {
				t.Fatalf("byte %d ^ %#x: taken for %+v", i, mask, m)
			}
			good[i] ^= mask
		}
	}
	for _, n := range []int{0, 1, 12, 4095} {
		if _, err := decodeManifest(good[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestManifestNewerVersionIsNamed(t *testing.T) {
	block := alignedBlock()
	if err := goldenManifest.encode(block); err != nil {
		t.Fatal(err)
	}
	block[manifestVersionAt] = 7
	seal(block)
	if _, err := decodeManifest(block); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "version 7") {
		t.Errorf("version 7: %v", err)
	}
}

func TestManifestOnAllDevices(t *testing.T) {
	onAll(t, 0, func(t *testing.T, d Device) {
		if _, err := LoadManifest(d); !errors.Is(err, ErrNoManifest) {
			t.Fatalf("empty directory: %v", err)
		}
		fresh := Manifest{DirectoryID: [16]byte{9}, Shards: 2, JournalFiles: 8, JournalFileBytes: 1 << 20}
		for want := range uint64(3) {
			now, before, err := BeginStart(d, fresh)
			if err != nil || now.Start != want+1 || before.Start != want {
				t.Fatalf("start %d: %+v after %+v, %v", want+1, now, before, err)
			}
			if err := StoreManifest(d, now); err != nil {
				t.Fatal(err)
			}
			fresh = Manifest{DirectoryID: [16]byte{8}, Shards: 3, JournalFiles: 2, JournalFileBytes: 4096}
		}
		m, err := LoadManifest(d)
		if err != nil || m.DirectoryID != [16]byte{9} || m.JournalFiles != 8 || m.JournalFileBytes != 1<<20 || m.Shards != 3 {
			t.Errorf("%+v, %v: identity and journal must stay, shards must follow", m, err)
		}
	})
}

// RULES 5. A directory that lost its manifest is not a new one.
func TestRule05MissingManifestIsDamage(t *testing.T) {
	for _, path := range []string{"shard-00/journal-0", "topics/1/0/f"} {
		d := NewSim(SimOptions{Seed: 1})
		createFile(t, d, path)
		if _, err := LoadManifest(d); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s without a manifest: %v", path, err)
		}
		if _, _, err := BeginStart(d, goldenManifest); !errors.Is(err, ErrDamaged) || d.Peek(manifestName) != nil {
			t.Errorf("%s without a manifest: started over: %v", path, err)
		}
	}
}

// RULES 5. Power goes after each completion in turn, many seeds: a manifest is there, and no start number is given out
// twice.
func TestRule05StartNumbersSurvivePowerCuts(t *testing.T) {
	for seed := range uint64(2000) {
		d := NewSim(SimOptions{Seed: seed})
		given := uint64(0)
		for round := range uint64(4) {
			d.CutAfter((seed*7 + round*5) % 13)
			now, before, err := BeginStart(d, Manifest{JournalFiles: 8})
			if err == nil {
				if now.Start <= given || before.Start < given {
					t.Fatalf("seed %d: start %d after %d was given out", seed, now.Start, given)
				}
				given = now.Start
			} else if !errors.Is(err, ErrPowerCut) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d = d.Crash()
		}
	}
}

// Each op fails once with each errno: an error, and the old manifest or the new one is there.
func TestManifestFailedOps(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.EMFILE} {
		for after := range uint64(9) {
			d := NewSim(SimOptions{Seed: after})
			if _, _, err := BeginStart(d, Manifest{}); err != nil {
				t.Fatal(err)
			}
			d.Plan(SimFault{After: after, Times: 1, Err: errno})
			now, _, err := BeginStart(d, Manifest{})
			failed := err != nil
			if failed && !errors.Is(err, errno) {
				t.Errorf("%v at op %d: %v", errno, after, err)
			}
			d.ClearPlans()
			d = d.Crash()
			m, err := LoadManifest(d)
			if err != nil || m.Start < 1 || m.Start > 2 || !failed && m.Start != now.Start {
				t.Errorf("%v at op %d: then start %d, %v", errno, after, m.Start, err)
			}
		}
	}
}

func FuzzManifest(f *testing.F) {
	block := alignedBlock()
	if err := goldenManifest.encode(block); err != nil {
		f.Fatal(err)
	}
	f.Add(block[12:64])
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, fields []byte) {
		b := alignedBlock()
		copy(b, manifestMagic)
		copy(b[manifestVersionAt:], fields)
		seal(b)
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		again := alignedBlock()
		if err := m.encode(again); err != nil || string(again) != string(b) {
			t.Fatalf("%+v encodes to other bytes than it was decoded from (%v)", m, err)
		}
	})
}

// seal makes the checksum right again.
func seal(block []byte) {
	binary.LittleEndian.PutUint32(block[manifestCRCAt:], crc32.Checksum(block[manifestVersionAt:], castagnoli))
}
