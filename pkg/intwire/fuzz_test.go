// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/json"
	"testing"
	"unsafe"
)

// FuzzDecode: for any bytes, nothing panics, nothing points outside of them, memory is bounded
// by their number, the JSON is valid, and INT without an anomaly is encoded to the same bytes. The
// first byte chooses the start, the second the profile.
func FuzzDecode(f *testing.F) {
	for _, frame := range frames(f) {
		f.Add(append([]byte{0, 0}, frame.data...))
		f.Add(append([]byte{1, 0}, frame.data[14:]...))
		for p := range Profiles {
			f.Add(append([]byte{0, byte(p + 1)}, frame.data...))
		}
		f.Add(append([]byte{5, 0}, frame.data[min(42, len(frame.data)):]...))
	}
	f.Add(append([]byte{5, 0}, sixHops(f)...))
	for _, c := range foreign {
		f.Add(append([]byte{c.start(), 0}, c.bytes(f)...))
	}
	var d Decoder
	var m, again Message
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		start, profile, data := b[0]%6, int(b[1])%(len(Profiles)+1), b[2:]
		d.Profile = nil
		if profile > 0 {
			d.Profile = &Profiles[profile-1]
		}
		if start == 5 {
			d.DecodeReport(&m, data)
		} else {
			d.Decode(&m, Start(start), data)
		}
		checkMessage(t, &m, data)
		checkEncoder(t, &m, &again, data, profile)
	})
}

// checkMessage checks what is true of every message.
func checkMessage(t testing.TB, m *Message, data []byte) {
	t.Helper()
	if (m.Profile == nil) != m.Has(NothingFound) {
		t.Fatalf("profile %v, nothing found: %v", m.Profile, m.Has(NothingFound))
	}
	words := len(data)/4 + 1
	if len(m.hops) > words*(maxDepth+1) || len(m.Reports) > words || len(m.INT)+len(m.Embedded) > words || len(m.tlvs) > words || len(m.Anomalies) > 16+10*words {
		t.Fatalf("%d bytes: %d hops, %d reports, %d INT, %d TLVs, %d anomalies",
			len(data), len(m.hops), len(m.Reports), len(m.INT)+len(m.Embedded), len(m.tlvs), len(m.Anomalies))
	}
	for _, ints := range [][]INT{m.INT, m.Embedded} {
		for i := range ints {
			in := &ints[i]
			for _, part := range [][]byte{in.SourceWords, in.Rest, in.Payload} {
				within(t, part, data)
			}
			for j := range in.Hops {
				h := &in.Hops[j]
				within(t, h.Reserved, data)
				within(t, h.DS, data)
				if h.Invalid&^h.Has != 0 {
					t.Fatalf("invalid but absent: %b of %b", h.Invalid, h.Has)
				}
			}
		}
	}
	for i := range m.Reports {
		s := &m.Reports[i]
		within(t, s.Inner, data)
		within(t, s.DSMetadata, data)
		within(t, s.MDReserved, data)
		for j := range s.TLVs {
			within(t, s.TLVs[j].Data, data)
		}
		if s.Embedded > len(m.Embedded) {
			t.Fatalf("embedded %d of %d", s.Embedded, len(m.Embedded))
		}
	}
	within(t, m.Report.Inner, data)
	if b := m.AppendJSON(nil); !json.Valid(b) {
		t.Fatalf("not JSON: %s", b)
	}
}

// within reports whether part lies in whole.
func within(t testing.TB, part, whole []byte) {
	t.Helper()
	if len(part) == 0 {
		return
	}
	p, w := uintptr(unsafe.Pointer(&part[0])), uintptr(unsafe.Pointer(&whole[0]))
	if p < w || p+uintptr(len(part)) > w+uintptr(len(whole)) {
		t.Fatalf("%d bytes outside of the packet", len(part))
	}
}

// checkEncoder encodes INT about which there is no anomaly: the bytes must be those that
// it was decoded from.
func checkEncoder(t testing.TB, m, again *Message, data []byte, profile int) {
	t.Helper()
	for _, a := range m.Anomalies {
		if a.Code != UnknownMark && a.Code != UnknownDomain {
			return
		}
	}
	if profile > 3 {
		return // not a text's
	}
	for _, ints := range [][]INT{m.INT, m.Embedded} {
		for i := range ints {
			in := &ints[i]
			if in.Header.Layout == INT05 || !in.HasHeader {
				continue
			}
			b, err := AppendINT(nil, in)
			if err != nil {
				t.Fatalf("%v: %s", err, m.AppendJSON(nil))
			}
			if !bytes.Contains(data, b) {
				t.Fatalf("encoded %x\nof %s\nfrom %x", b, m.AppendJSON(nil), data)
			}
		}
	}
}
