// SPDX-License-Identifier: Apache-2.0

package intwire

// Field is one value of INT metadata, in a hop's block or in a report.
type Field uint8

// The fields, in the order in which they are printed.
const (
	NodeID Field = iota // switch id in INT 0.5 and 1.0
	L1In
	L1Out
	HopLatency
	QueueID
	QueueOcc
	IngressTS
	EgressTS
	L2In
	L2Out
	CongestionQueueID // INT 0.5 only
	QueueCongestion   // INT 0.5 only
	EgressTxUtil
	BufferID
	BufferOcc
	ChecksumComplement
	DropQueueID // reports only
	DropReason  // reports only

	NumFields
)

// names are those of the JSON form, a contract (docs/int/formats.md).
var names = [NumFields]string{
	NodeID:             "node_id",
	L1In:               "l1_in",
	L1Out:              "l1_out",
	HopLatency:         "hop_latency",
	QueueID:            "queue_id",
	QueueOcc:           "queue_occ",
	IngressTS:          "ingress_ts",
	EgressTS:           "egress_ts",
	L2In:               "l2_in",
	L2Out:              "l2_out",
	CongestionQueueID:  "congestion_queue_id",
	QueueCongestion:    "queue_congestion",
	EgressTxUtil:       "egress_tx_util",
	BufferID:           "buffer_id",
	BufferOcc:          "buffer_occ",
	ChecksumComplement: "checksum_complement",
	DropQueueID:        "drop_queue_id",
	DropReason:         "drop_reason",
}

// String returns the field's name in JSON.
func (f Field) String() string {
	if f >= NumFields {
		return "unknown"
	}
	return names[f]
}

// Fields is a set of fields.
type Fields uint32

// Has reports whether f is in the set.
func (s Fields) Has(f Field) bool { return s&(1<<f) != 0 }

// Of returns the set of the given fields.
func Of(fields ...Field) (s Fields) {
	for _, f := range fields {
		s |= 1 << f
	}
	return s
}

// Values are the metadata of one hop, or of one report.
type Values struct {
	Has     Fields            // which fields there are
	Invalid Fields            // of those, the ones sent as all ones: "not available" (INT 2.1, "Metadata Instructions")
	V       [NumFields]uint64 // raw values, 0 where there is none
}

// Get returns a value. ok is false if the field is not there or was sent as not
// available.
func (v *Values) Get(f Field) (value uint64, ok bool) {
	if f >= NumFields {
		return 0, false
	}
	return v.V[f], v.Has&^v.Invalid&(1<<f) != 0
}

// Set gives a field a value.
func (v *Values) Set(f Field, value uint64) {
	v.Has |= 1 << f
	v.Invalid &^= 1 << f
	v.V[f] = value
}

// SetInvalid makes a field not available. It is encoded as all ones.
func (v *Values) SetInvalid(f Field) {
	v.Has |= 1 << f
	v.Invalid |= 1 << f
}
