// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/record"
)

// radar is a domain, driven through the command line as users drive it.
type radar struct {
	ctx    context.Context
	bin    string
	within []string // command that runs another, with less than this process has
	domain string
	nodes  []string
	agent  int // its process, once sample has asked
}

// attach attaches radar to nodes of the network, in the background. It is
// detached at the end of the test at the latest.
func (n *network) attach(t *testing.T, nodes []string, flags ...string) *radar {
	t.Helper()
	r := n.domain(t, nodes)
	r.run(t, n.attachArgs(nodes, flags...)...)
	return r
}

// domain is one that is not attached yet, and detached at the end of the test.
func (n *network) domain(t *testing.T, nodes []string) *radar {
	t.Helper()
	bin := radarbin.Path(t)
	r := &radar{ctx: n.ctx, bin: bin, domain: uniqueName(), nodes: nodes}
	nstest.Cleanup(t, func() {
		r.ctx, r.bin, r.within = context.Background(), bin, nil
		r.try("detach", "--no-drain")
	})
	return r
}

// attachArgs are those of radar attach, in the background.
func (n *network) attachArgs(nodes []string, flags ...string) []string {
	args := append([]string{"attach", "-d"}, flags...)
	for _, node := range nodes {
		args = append(args, node+"=netns:"+n.lab.NetNSPath(node))
	}
	return args
}

// commandMost is how long a command may take that does not hang.
const commandMost = 10 * time.Minute

// command is radar with those arguments.
func (r *radar) command(args ...string) (cmd *exec.Cmd, cancel func()) {
	ctx, cancel := context.WithTimeout(r.ctx, commandMost)
	argv := slices.Concat(r.within, []string{r.bin}, args, []string{"--domain", r.domain})
	return exec.CommandContext(ctx, argv[0], argv[1:]...), cancel
}

// both runs radar and returns what it printed anywhere.
func (r *radar) both(args ...string) (string, error) {
	cmd, cancel := r.command(args...)
	defer cancel()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// try runs radar and returns what it printed.
func (r *radar) try(args ...string) ([]byte, error) {
	cmd, cancel := r.command(args...)
	defer cancel()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("radar %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

func (r *radar) run(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := r.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// packetTimeout is the --timeout of domains whose packets all come to their end, the default
// one: longer than a machine stands still. Behind it a packet counts as expired, and is
// restored no more.
const packetTimeout = "10s"

// totals say what became of all packets.
type totals struct {
	Seen        int `json:"seen"`
	Delivered   int `json:"delivered"`
	Left        int `json:"left"`
	Lost        int `json:"lost"`
	Expired     int `json:"expired"`
	InFlight    int `json:"in_flight"`
	NotMeasured int `json:"not_measured"`
	Unread      int `json:"unread"`
	Unaccounted int `json:"unaccounted"`
}

// status is the part of "radar status -o json" that is needed here.
type status struct {
	Agent struct {
		Alive bool `json:"alive"`
		PID   int  `json:"pid"`
	} `json:"agent"`
	Lease struct {
		Valid bool `json:"valid"`
	} `json:"lease"`
	Totals   totals `json:"totals"`
	Counters []struct {
		Name  string `json:"name"`
		Group string `json:"group"`
		Value int    `json:"value"`
	} `json:"counters"`
}

func (r *radar) status(t *testing.T) status {
	t.Helper()
	var s status
	if err := json.Unmarshal(r.run(t, "status", "-o", "json"), &s); err != nil {
		t.Fatalf("radar status: %v", err)
	}
	return s
}

// lossMissed is for how many drops the kernel did not run the loss hook.
func (s *status) lossMissed() int {
	for _, c := range s.Counters {
		if c.Name == "loss_missed" {
			return c.Value
		}
	}
	return 0
}

// notMeasured is how many packets radar says it left alone, but for discovery between
// neighbours and for groups.
func (s *status) notMeasured() int {
	n := 0
	for _, c := range s.Counters {
		if c.Group == "not_measured" && !strings.Contains(c.Name, "neighbour") && !strings.Contains(c.Name, "multicast") {
			n += c.Value
		}
	}
	return n
}

// notable lists the counters that are not 0, for the log.
func (s *status) notable() string {
	var list []string
	for _, c := range s.Counters {
		if c.Value > 0 {
			list = append(list, fmt.Sprintf("%s %d", c.Name, c.Value))
		}
	}
	return strings.Join(list, ", ")
}

// settleMost is the longest timeout that is used here, and what an agent on a busy machine
// may lag behind.
const settleMost = 3 * time.Minute

// settle waits until every packet has come to its end, as radar sees it.
func (r *radar) settle(t *testing.T) status {
	t.Helper()
	var s status
	for end := time.Now().Add(settleMost); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if s = r.status(t); s.Totals.InFlight == 0 {
			return s
		}
	}
	t.Errorf("%d packets are still in flight %v after the last one was sent", s.Totals.InFlight, settleMost)
	return s
}

// records are all packets that radar remembers.
func (r *radar) records(t *testing.T) []record.Record {
	t.Helper()
	var list []record.Record
	dec := json.NewDecoder(bytes.NewReader(r.run(t, "packets", "-o", "json", "--last", "0")))
	for dec.More() {
		var rec record.Record
		if err := dec.Decode(&rec); err != nil {
			t.Fatalf("radar packets: %v", err)
		}
		list = append(list, rec)
	}
	return list
}

// losses is radar's own summary of losses.
func (r *radar) losses(t *testing.T) []oracle.Losses {
	t.Helper()
	var list []oracle.Losses
	dec := json.NewDecoder(bytes.NewReader(r.run(t, "loss", "-o", "json")))
	for dec.More() {
		var row struct {
			Node    string    `json:"node"`
			Port    string    `json:"port"`
			At      record.At `json:"at"`
			Reason  string    `json:"reason"`
			Packets int64     `json:"packets"`
			Skbs    int64     `json:"skbs"`
		}
		if err := dec.Decode(&row); err != nil {
			t.Fatalf("radar loss: %v", err)
		}
		list = append(list, oracle.Losses(row))
	}
	return list
}

// topo is the topology as radar shows it.
func (r *radar) topo(t *testing.T) *oracle.TopoAnswer {
	t.Helper()
	a := new(oracle.TopoAnswer)
	if err := json.Unmarshal(r.run(t, "topo", "-o", "json"), a); err != nil {
		t.Fatalf("radar topo: %v", err)
	}
	return a
}
