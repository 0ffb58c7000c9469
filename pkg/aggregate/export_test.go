// SPDX-License-Identifier: Apache-2.0

package aggregate

import "slices"

// SettleAll puts all arrivals in order.
func (a *Aggregates) SettleAll() { a.settleAll() }

// Encode makes a snapshot, in one piece.
func (a *Aggregates) Encode() []byte { return slices.Concat(a.EncodeChunks()...) }

// Decode reads one of Encode's.
func Decode(b []byte) error {
	_, _, err := decode(b, 1)
	return err
}

// Copy is what a snapshot of a gives.
func (a *Aggregates) Copy() (*Aggregates, error) {
	b, _, err := decode(a.Encode(), 1)
	return b, err
}

const (
	MaxWaiting = maxWaiting
	ChunkBytes = chunkBytes
)

// EncodeChunks makes a snapshot as the agent does.
func (a *Aggregates) EncodeChunks() [][]byte { return a.encode(1, nil) }

// Room is how many arrivals and flows the largest slice of each has memory for, that settle
// uses, and how many bytes those of snapshots have.
func (a *Aggregates) Room() (arrivals, flows, snapshot int) {
	return max(cap(a.waiting), cap(a.spareWaiting), cap(a.list)),
		max(cap(a.busy), cap(a.spareBusy)), max(room(a.written), room(a.spare))
}

func room(chunks [][]byte) (n int) {
	for _, b := range chunks {
		n += cap(b)
	}
	return n
}

// Buckets is how many the latencies of all flows have.
func (a *Aggregates) Buckets() int { return a.buckets }

// SetBuckets makes it n: at MaxFlowBuckets there is no room for more.
func (a *Aggregates) SetBuckets(n int) { a.buckets = n }

var (
	Replace  = replace
	TCPFrees = tcpFrees
)
