// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// domain is a radar that is attached, driven as users drive it.
type domain struct {
	name, state, bin string
	before           *Status // as it stood when the nodes of this run joined
}

// try runs radar and returns what it printed.
func (d *domain) try(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience*10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.bin, append(args, "--domain", d.name)...)
	cmd.Env = append(os.Environ(), "RADAR_STATE_DIR="+d.state)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("radar %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

func (d *domain) run(t testing.TB, args ...string) []byte {
	t.Helper()
	out, err := d.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Status is the part of "radar status -o json" that is needed here.
type Status struct {
	Totals struct {
		Seen        int `json:"seen"`
		InFlight    int `json:"in_flight"`
		NotMeasured int `json:"not_measured"`
		Unread      int `json:"unread"`
		Unaccounted int `json:"unaccounted"`
	} `json:"totals"`
	Options struct {
		IPv6  string `json:"ipv6"`
		Carry string `json:"carry"`
	} `json:"options"`
	Counters []Counter `json:"counters"`
	Nodes    []struct {
		Name   string `json:"name"`
		Header string `json:"header"` // why it carries the header
	} `json:"nodes"`
}

// Counter is one of them.
type Counter struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Value int    `json:"value"`
	Help  string `json:"help"`
}

func (d *domain) status(t testing.TB) *Status {
	t.Helper()
	s := new(Status)
	if err := json.Unmarshal(d.run(t, "status", "-o", "json"), s); err != nil {
		t.Fatalf("radar status: %v", err)
	}
	return s
}

// settle waits until every packet has come to its end, as radar sees it.
func (d *domain) settle(t testing.TB) *Status {
	t.Helper()
	var s *Status
	wait := 20 * time.Millisecond
	for end := time.Now().Add(mostWait); ; {
		if s = d.status(t); s.Totals.InFlight > 0 && time.Now().Before(end) {
			time.Sleep(wait)
			wait += wait / 4 // where a timeout is waited for, asking takes a CPU from others
			continue
		}
		if err := s.since(d.before); err != nil {
			t.Error(err)
		}
		return s
	}
}

// records are all packets that radar remembers and has seen since then.
func (d *domain) records(t testing.TB, since time.Time) []record.Record {
	t.Helper()
	var list []record.Record
	dec := json.NewDecoder(bytes.NewReader(d.run(t, "packets", "-o", "json", "--last", "0")))
	for dec.More() {
		var rec record.Record
		if err := dec.Decode(&rec); err != nil {
			t.Fatalf("radar packets: %v", err)
		}
		if rec.TNs >= since.UnixNano() {
			list = append(list, rec)
		}
	}
	return list
}

// topology is which ports radar is attached to.
type topology struct {
	Nodes []struct {
		Name  string `json:"name"`
		VM    bool   `json:"vm"`
		Ports []struct {
			Name string `json:"name"`
			Role string `json:"role"`
			Peer string `json:"peer"`
		} `json:"ports"`
	} `json:"nodes"`
}

func (d *domain) topo(t testing.TB) *topology {
	t.Helper()
	a, err := parseTopology(d.run(t, "topo", "-o", "json"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parseTopology(b []byte) (*topology, error) {
	a := new(topology)
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("radar topo: %w", err)
	}
	return a, nil
}

// role of a port: internal or edge.
func (a *topology) role(node, port string) string {
	for _, n := range a.Nodes {
		for _, p := range n.Ports {
			if n.Name == node && p.Name == port {
				return p.Role
			}
		}
	}
	return ""
}

// isMachine reports whether a node is a virtual machine, which nobody looks into.
func (a *topology) isMachine(node string) bool {
	for _, n := range a.Nodes {
		if n.Name == node {
			return n.VM
		}
	}
	return false
}

// peer is the node at the other end of a port, "" if it is not attached.
func (a *topology) peer(node, port string) string {
	for _, n := range a.Nodes {
		for _, p := range n.Ports {
			if n.Name == node && p.Name == port {
				peer, _, _ := strings.Cut(p.Peer, "/")
				return peer
			}
		}
	}
	return ""
}

// has reports whether a port is attached.
func (a *topology) has(node, port string) bool {
	return a.role(node, port) != ""
}
