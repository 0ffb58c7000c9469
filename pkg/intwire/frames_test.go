// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// frame is one of testdata/frames.json: bytes that did not come from this package.
type frame struct {
	Name     string         `json:"name"`
	StartsAt string         `json:"starts_at"`
	Hex      string         `json:"hex"`
	Length   int            `json:"length"`
	Expected map[string]any `json:"expected"`
	About    map[string]any `json:"about"`
	data     []byte
}

func frames(t testing.TB) []frame {
	t.Helper()
	b, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []frame
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		f := &all[i]
		if f.data, err = hex.DecodeString(f.Hex); err != nil || len(f.data) != f.Length || f.StartsAt != "ethernet" {
			t.Fatalf("%s: %d bytes, %v", f.Name, len(f.data), err)
		}
	}
	return all
}

func frameByName(t testing.TB, name string) []byte {
	t.Helper()
	for _, f := range frames(t) {
		if f.Name == name {
			return f.data
		}
	}
	t.Fatalf("no frame %q", name)
	return nil
}

// asJSON is the JSON form of a message, read back by another JSON reader.
func asJSON(t testing.TB, m *Message) map[string]any {
	t.Helper()
	var got map[string]any
	b := m.AppendJSON(nil)
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return got
}

// lacks lists what is in want and not in got, and elements of lists that only got has.
func lacks(path string, want, got any) (missing []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: want an object, got %v", path, got)}
		}
		for name, v := range w {
			if have, ok := g[name]; ok {
				missing = append(missing, lacks(path+"."+name, v, have)...)
			} else {
				missing = append(missing, path+"."+name+" is absent")
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: want %d, got %v", path, len(w), got)}
		}
		for i := range w {
			missing = append(missing, lacks(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
	default:
		if !reflect.DeepEqual(want, got) {
			missing = append(missing, fmt.Sprintf("%s: want %v, got %v", path, want, got))
		}
	}
	return missing
}

// Every frame is recognised without a profile, and has the values it was made from.
func TestFrames(t *testing.T) {
	profiles := map[string]string{
		"int21": "spec-2.1", "tr20": "spec-2.1", "p4studio": "spec-2.1", "ts-domain": "spec-2.1", "incomplete": "spec-2.1", "p4int": "p4int",
		"int10": "spec-1.0", "tr10": "spec-1.0", "mmtdpi-int10": "spec-1.0",
		"tr05": "spec-0.5", "fabric-tna": "spec-0.5",
		"intcollector": "intcollector", "geant": "geant", "onos-basic": "onos-basic", "hostint": "host-int",
	}
	var d Decoder
	var m Message
	n := 0
	for _, f := range frames(t) {
		n++
		t.Run(f.Name, func(t *testing.T) {
			d.Decode(&m, StartEthernet, f.data)
			got := asJSON(t, &m)
			for _, s := range lacks("", f.Expected, got) {
				t.Error(s)
			}
			want := ""
			for prefix, p := range profiles {
				if strings.HasPrefix(f.Name, prefix) {
					want = p
				}
			}
			if have, _ := got["profile"].(string); have != want {
				t.Errorf("profile %q, want %q", have, want)
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("%s", m.AppendJSON(nil))
			}
		})
	}
	if n != 26 {
		t.Errorf("%d frames", n)
	}
}

// What the remarks about the frames say besides the values that must be printed.
func TestFramesAbout(t *testing.T) {
	var d Decoder
	var m Message
	for name, wants := range map[string][]string{
		"hostint-report-ipv4":      {`"switch_id":9,"ingress_ts":512`, `"flow_sequence":1001`},
		"intcollector-e2e-p0":      {`"queue_id":5,"queue_occ":600`, `"queue_id":5,"queue_occ":6,`},
		"onos-basic-int-report":    {`"D":0,"Q":0,"F":1,"hw_id":1`},
		"geant-bmv2-report":        {`"reserved16":"0x004d"`, `"l2_in":2,"l2_out":3`},
		"tr10-flow-embedded-int10": {`"shim":{"type":1,"length_words":7,"orig_dscp":10}`, `[{"node_id":2,"queue_id":1,"queue_occ":291},{"node_id":1,"queue_id":0,"queue_occ":69}]`},
		"mmtdpi-int10-two-hops":    {`[{"node_id":2684354560},{"node_id":2684354561}]`},
		"int21-md-ipv4-gre":        {`"G":0,"next_protocol":"0x6558"`},
		"int21-mx-ipv4-vxlan-gpe":  {`"vxlan_next_protocol":"0x82"`, `"G":0,"next_protocol":3`},
		"mmtdpi-dscp-only-not-int": {`"dscp":10,"ecn":0},"anomalies":["what follows`},
	} {
		d.Decode(&m, StartEthernet, frameByName(t, name))
		got := string(m.AppendJSON(nil))
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", name, want, got)
			}
		}
	}
}
