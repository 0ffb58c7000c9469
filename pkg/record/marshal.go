// SPDX-License-Identifier: Apache-2.0

package record

// Absent names the fields of r, by their JSON names, that stand as 0 for what is not
// there: IPv6 has no IP ID, and of a segment whose train was overwritten nothing of
// the header is known.
func (r *Record) Absent() []string {
	switch {
	case r.Src == "":
		return []string{"ttl", "dscp", "ecn", "ip_id"}
	case r.IPVersion == 6:
		return []string{"ip_id"}
	}
	return nil
}

// JSON returns what encoding/json shall encode for r: r itself, or r without the
// fields that Absent names, since elsewhere 0 is a value. It is no MarshalJSON: that
// would encode every record twice.
func (r *Record) JSON() any {
	type absent = *struct{}
	if r.Src != "" && r.IPVersion == 6 {
		return struct {
			*Record
			IPID absent `json:"ip_id,omitempty"`
		}{Record: r}
	}
	if r.Src != "" {
		return r
	}
	return struct {
		*Record
		Src  absent `json:"src,omitempty"`
		Dst  absent `json:"dst,omitempty"`
		TTL  absent `json:"ttl,omitempty"`
		DSCP absent `json:"dscp,omitempty"`
		ECN  absent `json:"ecn,omitempty"`
		IPID absent `json:"ip_id,omitempty"`
	}{Record: r}
}
