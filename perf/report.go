package perf

import (
	"time"
)

// Report is the outcome of a run. Rates count payload bytes unless they say wire.
type Report struct {
	Mode        string     `json:"mode"`
	Target      string     `json:"target"` // broker or floor
	Size        int        `json:"size_bytes"`
	Batch       int        `json:"batch_records"`
	Connections int        `json:"connections"`
	Partitions  int        `json:"partitions"`
	Acks        string     `json:"acks"`
	Codec       string     `json:"compression"`
	Rate        float64    `json:"offered_records_per_second"` // 0: as fast as it goes
	Records     uint64     `json:"records"`
	Bytes       uint64     `json:"payload_bytes"`
	WireBytes   uint64     `json:"wire_bytes"` // where the wire is measured
	Lost        uint64     `json:"lost"`
	Seconds     float64    `json:"seconds"`
	PerSecond   float64    `json:"records_per_second"`
	MiBSecond   float64    `json:"payload_mib_per_second"`
	WireMiB     float64    `json:"wire_mib_per_second"`
	Latency     *Quantiles `json:"latency_us,omitempty"`
	Host        Host       `json:"host"`
}

// Quantiles of a latency, microseconds.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
}

const mib = 1 << 20

// finish computes the rates.
func (r *Report) finish(took time.Duration) {
	r.Seconds = took.Seconds()
	if r.Seconds > 0 {
		r.PerSecond = float64(r.Records) / r.Seconds
		r.MiBSecond = float64(r.Bytes) / mib / r.Seconds
		r.WireMiB = float64(r.WireBytes) / mib / r.Seconds
	}
	r.Host = thisHost()
}

func newReport(mode string, c *Config) *Report {
	return &Report{Mode: mode, Target: "broker", Size: c.Size, Batch: c.Batch, Connections: c.Connections, Partitions: c.Partitions,
		Codec: c.Codec.String(), Rate: c.Rate}
}
