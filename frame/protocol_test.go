package frame

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
)

// docs/PROTOCOL.md is what others write clients from. It must name all there is, and its bytes must be the ones we test.

func protocol(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section returns the text from heading to the next one of the same or a higher level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, body, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	for _, level := range []string{"\n## ", "\n### "} {
		if strings.HasPrefix(heading, "## ") && level == "\n### " {
			continue
		}
		body, _, _ = strings.Cut(body, level)
	}
	return body
}

func TestProtocolNamesEveryCommand(t *testing.T) {
	text := protocol(t)
	frames := section(t, text, "## Frames")
	for c := range Command(255) {
		if !c.Known() {
			continue
		}
		section(t, text, "### "+c.String())
		if !strings.Contains(frames, fmt.Sprintf("| %s | %d |", c, c)) {
			t.Errorf("the command table lacks %v = %d", c, c)
		}
	}
}

// Every field of every message stands in a table of its command's section, or of the section that its type has.
func TestProtocolNamesEveryField(t *testing.T) {
	text := protocol(t)
	for heading, types := range map[string][]any{
		"## Frames":          {Header{}},
		"## Settings":        {Settings{}},
		"## Batches":         {batch.Header{}},
		"### HELLO":          {Hello{}, HelloReply{}},
		"### AUTH":           {Auth{}, AuthReply{}},
		"### METADATA":       {Metadata{}, MetadataReply{}, Endpoint{}, TopicMetadata{}},
		"### CREATE TOPIC":   {CreateTopic{}, CreateTopicReply{}},
		"### DELETE TOPIC":   {DeleteTopic{}},
		"### ALTER TOPIC":    {AlterTopic{}},
		"### LIST TOPICS":    {ListTopics{}, ListTopicsReply{}, TopicSummary{}},
		"### DESCRIBE TOPIC": {DescribeTopic{}, DescribeTopicReply{}, PartitionInfo{}},
		"### PRODUCER ID":    {ProducerIDReply{}},
		"### PRODUCE":        {Produce{}, ProduceReply{}},
		"### PUBLISH":        {Publish{}},
		"### FETCH":          {Fetch{}, FetchPartition{}, FetchChunk{}},
		"### LIST OFFSETS":   {ListOffsets{}, OffsetQuery{}, ListOffsetsReply{}, OffsetAnswer{}},
		"### SUBSCRIBE":      {Subscribe{}},
		"### DELIVER":        {Deliver{}},
		"### CREDIT":         {Credit{}},
		"### CANCEL":         {Cancel{}},
		"### ERROR":          {Error{}},
	} {
		body := section(t, text, heading)
		for _, v := range types {
			typ := reflect.TypeOf(v)
			for i := range typ.NumField() {
				if name := typ.Field(i).Name; !strings.Contains(body, "| `"+name+"` |") {
					t.Errorf("%s: no row for %s.%s", heading, typ.Name(), name)
				}
			}
		}
	}
}

func TestProtocolNamesEveryError(t *testing.T) {
	body := section(t, protocol(t), "## Errors")
	for c := ErrMalformed; int(c) < len(errorTable); c++ {
		retriable := "no"
		if c.Retriable() {
			retriable = "yes"
		}
		if row := fmt.Sprintf("| %d | %s | %s | %s | %s | %s |", c, c.Name(), retriable, c.row().closes, c, c.Advice()); !strings.Contains(body, row) {
			t.Errorf("the error table lacks\n%s", row)
		}
	}
	if rows := strings.Count(body, "\n| ") - 1; rows != len(errorTable)-1 {
		t.Errorf("%d rows, %d errors", rows, len(errorTable)-1)
	}
}

// Each hex block is the file that it names, byte for byte, and no file is left out.
func TestProtocolHexIsTestdata(t *testing.T) {
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)```hex (\\S+)\n(.*?)```").FindAllStringSubmatch(protocol(t), -1) {
		path := filepath.Join("..", m[1])
		want, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if m[2] != string(want) {
			t.Errorf("the block of %s differs from the file", m[1])
		}
		parseHex(t, m[2])
		shown[path] = true
	}
	for _, dir := range []string{"testdata/*.hex", "batch/testdata/*.hex"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, f := range files {
			if !shown[filepath.Join("..", "frame", f)] {
				t.Errorf("%s is not shown", f)
			}
		}
	}
}

// The numbers that the page prints are the constants.
func TestProtocolPrintsTheLimits(t *testing.T) {
	text := protocol(t)
	limits := section(t, text, "## Limits")
	for _, n := range []int{MaxPayload, MaxPayloadBeforeAuth, MaxPublishPayload, MaxNameBytes, MaxMechanismBytes, MaxErrorText,
		MaxMetadataTopics, MaxTopicPartitions, MaxFetchPartitions, MaxOffsetQueries, MaxListTopics, MaxReplyBytes} {
		if !strings.Contains(limits, thousands(n)) {
			t.Errorf("Limits lacks %s", thousands(n))
		}
	}
	settings := section(t, text, "## Settings")
	d := DefaultSettings()
	for _, n := range []int{int(d.IntervalMillis), int(d.MaxRecordBytes), int(d.SegmentBytes), MaxIntervalMillis, MinRecordBytes, MinSegmentBytes} {
		if !strings.Contains(settings, thousands(n)) {
			t.Errorf("Settings lacks %s", thousands(n))
		}
	}
	if MaxBatchBytes(1) != 96+1<<20 || MaxBatchBytes(16<<20) != 96+16<<20+1<<10 || MaxRecordLimit != 1<<30 || MaxSegmentBytes != 1<<31 {
		t.Error("a bound that the page gives as a formula has changed")
	}
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
