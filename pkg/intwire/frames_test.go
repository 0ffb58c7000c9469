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

// asJSON is what the library says of a message, read back by another JSON reader.
func asJSON(t testing.TB, m *Message) map[string]any {
	t.Helper()
	var got map[string]any
	b := m.AppendJSON(nil)
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return got
}

// lacks lists what of want is not in got, and what of lists is there beyond it.
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
		"int21": "spec-2.1", "tr20": "spec-2.1", "p4studio": "spec-2.1",
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
	if n != 22 {
		t.Errorf("%d frames", n)
	}
}
