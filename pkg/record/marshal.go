// SPDX-License-Identifier: Apache-2.0

package record

// JSON returns what encoding/json shall encode for r: r itself, or r without the
// fields of the packet's header where the header is not known (a segment whose
// train was overwritten), since elsewhere 0 is a value. It is no MarshalJSON: that
// would encode every record twice.
func (r *Record) JSON() any {
	if r.Src != "" {
		return r
	}
	type absent = *struct{}
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
