// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/packet"
)

// update writes the files of a release that has none yet. Those of earlier ones are never written anew.
var update = flag.Bool("update", false, "write testdata/v1.0.parquet if it is not there")

// released is a packet of a release's file, by its fields: what later releases add is absent.
type released struct {
	P                             packet.Packet
	ID, GUID, Source, Host, Inner string
	INT                           []map[string]uint64
	Nodes                         []string
	Links                         []int64
	LossHop                       int
	Function                      string
	Functions                     []string
	NodeNames, InPorts, OutPorts  []string
}

func release(p *Packet, names packet.Names) *released {
	c := clone(p)
	r := &released{
		P: c.Packet, ID: p.ID, GUID: p.GUID, Source: p.Source, Host: p.Host, Inner: p.Inner, Nodes: p.Nodes, Links: p.Links,
		LossHop: p.LossHop, Function: p.Loss.Function.Name(),
	}
	r.P.Loss.Function = nil
	if p.INT != nil {
		r.INT = make([]map[string]uint64, len(p.INT))
	}
	for i, said := range p.INT {
		r.INT[i] = said.Map()
	}
	for i := range r.P.Drops {
		r.Functions = append(r.Functions, r.P.Drops[i].Function.Name())
		r.P.Drops[i].Function = nil
	}
	for i := range r.P.Hops {
		h := &r.P.Hops[i]
		r.NodeNames, r.InPorts, r.OutPorts = append(r.NodeNames, names.NodeName(h.Node)), append(r.InPorts, names.PortName(h.In)), append(r.OutPorts, names.PortName(h.Out))
	}
	return r
}

// TestFirstRelease: the file that the first release has written is read for ever, with the answer of then.
func TestFirstRelease(t *testing.T) {
	const path, golden = "testdata/v1.0.parquet", "testdata/v1.0.json"
	if _, err := os.Stat(path); *update && os.IsNotExist(err) {
		text, err := os.ReadFile(file(t, t.TempDir(), 11, 120))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var got []*released
	var text bytes.Buffer
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error {
		r := release(p, d.Scope())
		got = append(got, r)
		return json.NewEncoder(&text).Encode(r)
	}); err != nil || len(d.Damage()) > 0 {
		t.Fatal(err, d.Damage())
	}
	if _, err := os.Stat(golden); *update && os.IsNotExist(err) {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for dec := json.NewDecoder(bytes.NewReader(kept)); ; n++ {
		var want released
		if err := dec.Decode(&want); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if n >= len(got) {
			t.Fatalf("%d packets are read", len(got))
		}
		if diff := cmp.Diff(&want, got[n], same); diff != "" {
			t.Fatalf("packet %d: %s", n, diff)
		}
	}
	if n != len(got) || n != 120 {
		t.Errorf("%d packets, %d were kept", len(got), n)
	}
	m := d.Meta()[0]
	if diff := cmp.Diff(testMeta(), m); diff != "" {
		t.Error(diff)
	}
}

// TestNewerFile: a file of a later major version is refused by its name and its version, alone and in a
// directory, whose other files are read.
func TestNewerFile(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, 3, 20)
	want, _ := answer(t, dir)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	key := keySchema + "\x18\x03"
	if bytes.Count(text, []byte(key+"1.3")) != 1 {
		t.Fatal("the file does not say its version once")
	}
	newer := filepath.Join(filepath.Dir(path), "packets-newer.parquet")
	if err := os.WriteFile(newer, fixSums(bytes.Replace(text, []byte(key+"1.3"), []byte(key+"2.0"), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	message := newer + ": footer: its schema has version 2.0; this radar reads versions up to 1: a newer radar wrote it"
	if got, damage := answer(t, dir); got != want || len(damage) != 1 || damage[0].String() != message {
		t.Errorf("damage %v", damage)
	}
	if _, err := Open(newer); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("alone: %v", err)
	}
}
