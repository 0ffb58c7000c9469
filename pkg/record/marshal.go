// SPDX-License-Identifier: Apache-2.0

package record

// Absent names the fields of r, by their JSON names, that stand as 0 for what is not
// there: IPv6 has no IP ID, of a segment whose train was overwritten nothing of the header
// is known, and what others have measured has no GUID.
func (r *Record) Absent() []string {
	var names []string
	if r.GUID == "" {
		names = append(names, "guid")
	}
	switch {
	case r.Src == "":
		return append(names, "ttl", "dscp", "ecn", "ip_id")
	case r.IPVersion == 6:
		return append(names, "ip_id")
	}
	return names
}

// What JSON leaves out: encoding/json drops fields that two embedded structs name alike.
type (
	absent *struct{}
	noGUID struct {
		GUID absent `json:"guid"`
	}
	noIPID struct {
		IPID absent `json:"ip_id"`
	}
	noHeader struct {
		Src  absent `json:"src"`
		Dst  absent `json:"dst"`
		TTL  absent `json:"ttl"`
		DSCP absent `json:"dscp"`
		ECN  absent `json:"ecn"`
		IPID absent `json:"ip_id"`
	}
)

// IsLost reports whether a packet was lost, also behind where its TTL was used up.
func (r *Record) IsLost() bool { return r.State == Lost || r.State == Expired && r.Loss != nil }

// LastNs is the time from the first stamp to the last, ns: the latency, or, where a packet was lost, until its last hop. It was
// dropped later (Loss). nil: there is one stamp.
func (r *Record) LastNs() *int64 {
	last := r.LatencyNs
	for i := range r.Hops {
		if at := r.Hops[i].AtNs; r.LatencyNs == nil && at != nil && (last == nil || *at > *last) {
			last = at
		}
	}
	return last
}

// JSON returns what encoding/json shall encode for r: r itself, or r without the
// fields that Absent names, since elsewhere 0 is a value. It is no MarshalJSON: that
// would encode every record twice.
func (r *Record) JSON() any {
	if r.LatencyNs != nil && r.IsLost() { // a time to where it was lost is no latency
		arrived := *r
		arrived.LatencyNs = nil
		r = &arrived
	}
	switch {
	case r.Src == "" && r.GUID == "":
		return struct {
			*Record
			noGUID
			noHeader
		}{Record: r}
	case r.Src == "":
		return struct {
			*Record
			noHeader
		}{Record: r}
	case r.GUID == "" && r.IPVersion == 6:
		return struct {
			*Record
			noGUID
			noIPID
		}{Record: r}
	case r.GUID == "":
		return struct {
			*Record
			noGUID
		}{Record: r}
	case r.IPVersion == 6:
		return struct {
			*Record
			noIPID
		}{Record: r}
	}
	return r
}
