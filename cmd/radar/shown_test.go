// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/nodes/dockertest"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// bridgedAnswer is what the load of networkDomain gives, and a loss at its bridge.
func bridgedAnswer(a *app, d *domain.Domain) *answer.Counts {
	a.showNames(d)
	agg := bridgedLoad()
	agg.Add(&packet.Packet{State: record.Lost, Lost: true, Segs: 3, LatencyNs: packet.NoTime,
		Loss: packet.Drop{Node: 3, Port: 2, At: record.AtNode, Reason: "NETFILTER_DROP", AtNs: 5},
		Hops: []packet.Hop{{Node: 1, In: packet.NoPort, Out: 0, InNs: -1, OutNs: 0, DequeueNs: packet.NoTime}}})
	return answer.NewCounts(agg, a.namesOf(backpack.NewDecoder(d, nil)))
}

// Tables have Docker's name of a bridge, and "(not attached)" for who is behind another member
// of it. JSON has the names of interfaces, and of the node in whose namespace the bridge is; what
// was lost there was lost by that node.
func TestShownNames(t *testing.T) {
	d := networkDomain()
	text := func(format outputFormat, show func(a *app, c *answer.Counts) error) string {
		return string(printed(t, format, func(a *app) error { return show(a, bridgedAnswer(a, d)) }))
	}
	paths := func(a *app, c *answer.Counts) error { return a.printPaths(c.Paths().List) }
	by := func(by aggregate.By) func(a *app, c *answer.Counts) error {
		return func(a *app, c *answer.Counts) error { return a.printLatency(c.Latency(by).List, false) }
	}
	passed := func(by aggregate.By) func(a *app, c *answer.Counts) error {
		return func(a *app, c *answer.Counts) error { return a.printThroughput(c.Throughput(by, 10).List, 10) }
	}
	losses := func(a *app, c *answer.Counts) error { return a.printLosses(c.Losses(false).List, false, nil) }
	for name, c := range map[string]struct {
		format outputFormat
		show   func(a *app, c *answer.Counts) error
		wants  []string
	}{
		"paths":      {formatTable, paths, []string{"c1 > (not attached)\n", "(not attached) > c1\n", "c1 > host\n", "host > c2\n"}},
		"paths wide": {formatWide, paths, []string{"c1:eth0 > (not attached):veth77\n", "c1:eth0 > shop:host\n", "host:shop > eth0:c2\n"}},
		"links":      {formatTable, by(aggregate.ByLink), []string{"host/shop > c2/eth0\n", "c1/eth0 > host/shop\n"}},
		"traffic":    {formatTable, passed(aggregate.ByLink), []string{"c1/eth0 > (not attached)/veth77\n"}},
		"ports":      {formatTable, passed(aggregate.ByPort), []string{"host/shop in\n", "host/shop out\n", "(not attached)/veth77 out\n"}},
		"losses":     {formatTable, losses, []string{"host  shop  node     NETFILTER_DROP"}},
	} {
		got := text(c.format, c.show)
		for _, want := range c.wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		if strings.Contains(got, networkBridge) || strings.Contains(got, "host/veth77") {
			t.Errorf("%s: the interface's own name in\n%s", name, got)
		}
		raw := text(formatJSON, c.show)
		if !strings.Contains(raw, networkBridge) || strings.Contains(raw, "shop") || strings.Contains(raw, notAttached) {
			t.Errorf("%s: JSON has other names:\n%s", name, raw)
		}
	}
}

// A story and the line of a packet name the same.
func TestShownRecords(t *testing.T) {
	d := networkDomain()
	left := record.Record{V: 1, ID: "1-1", Source: record.EBPF, State: record.Left, Proto: "udp", Src: "10.0.0.1", Dst: "10.0.0.2",
		Hops: []record.Hop{{Node: "c1", NodeID: 1, Port: "eth0", Role: record.Source}, {Node: "host", NodeID: 3, Port: "veth77", Role: record.Sink}}}
	lost := left
	lost.State, lost.Hops = record.Lost, []record.Hop{{Node: "host", NodeID: 3, Port: networkBridge, Role: record.Source}}
	lost.Loss = &record.Loss{Node: "host", Port: networkBridge, At: record.AtQueue, Reason: "QDISC_DROP"}
	expired := lost
	expired.State, expired.Loss, expired.Hops = record.Expired, nil, []record.Hop{{Node: "c1", NodeID: 1, Port: "eth0", Role: record.Source}}
	reported := left // by a switch, which may call its ports as it likes
	reported.Source = record.INT
	for _, c := range []struct {
		r           record.Record
		line, story string
	}{
		{left, "c1 > (not attached)", "(not attached)  leaves the domain by veth77"},
		{lost, "host/shop queue QDISC_DROP", "LOST in the queue of shop"},
		{expired, "c1", "between c1/eth0 and bridge host/shop"},
		{reported, "c1 > host", "host  leaves the domain by veth77"},
	} {
		line := string(printed(t, formatTable, func(a *app) error {
			a.showNames(d)
			return a.packetPrinter(packetQuery{}).print([]*record.Record{&c.r})
		}))
		tell := &teller{words{location: time.UTC}, newShownNames(d)}
		story := strings.Join(tell.tell(answer.NewStory(&c.r, 0, d, time.Time{})).lines(false), "\n")
		if !strings.Contains(line, c.line) || !strings.Contains(story, c.story) {
			t.Errorf("want %q in\n%s\nand %q in\n%s", c.line, line, c.story, story)
		}
		if c.r.Hops[len(c.r.Hops)-1].Node == notAttached {
			t.Error("the record itself has changed")
		}
	}
}

// Sentences that radar has made of interfaces name the network, and nothing that only begins alike.
func TestShownTexts(t *testing.T) {
	s := newShownNames(networkDomain())
	for text, want := range map[string]string{
		"fq_codel at host/" + networkBridge + ", and more": "fq_codel at host/shop, and more",
		"bridge host/" + networkBridge + ":":               "bridge host/shop:",
		"host/" + networkBridge + "x":                      "host/" + networkBridge + "x",
		"c1/" + networkBridge:                              "c1/" + networkBridge,
		"host/veth77 and /run/radar":                       "host/veth77 and /run/radar",
	} {
		if got := s.texts([]string{text})[0]; got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// network is what the domain's description says that a bridge is.
func (w *world) network(bridge string) string {
	w.Helper()
	d, err := domain.Load(w.domain)
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range d.Ports {
		if p.Name == bridge && p.Place == domain.Bridge && !p.Removed {
			return p.Network
		}
	}
	return ""
}

// bridgeOf is the interface of a network.
func bridgeOf(d *dockertest.Engine, network string) string {
	return "br-" + d.Docker("network", "inspect", "--format", "{{.Id}}", network)[:12]
}

// Real networks of a real engine: attach, topo, paths, latencies and packets have the name that the
// user gave, and a container that is not attached is not called like the host.
func TestDockerNetworks(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	network := d.Network("net")
	bridge := bridgeOf(d, network)
	web, db, cache := d.Run("web", "--network", network), d.Run("db", "--network", network), d.Run("cache", "--network", network)
	none := func(what, out string) {
		t.Helper()
		if strings.Contains(out, bridge) || !strings.Contains(out, network) {
			t.Errorf("%s: not the network's name in\n%s", what, out)
		}
	}
	label := "docker:label=" + d.Label() + "x"
	none("attach", w.radar(exitOK, "attach", "-d", "--watch-containers", "web=docker:"+web.Name, "db=docker:"+db.Name, label))
	if got := w.network(bridge); got != network {
		t.Fatalf("the description says that %s is %q, want %q", bridge, got, network)
	}
	web.Exec("ping", "-c", "2", "-i", "0.1", "-W", "60", db.Address())
	web.Exec("ping", "-c", "2", "-i", "0.1", "-W", "60", cache.Address())
	nstest.WaitFor(t, "the packets' records", func() bool { return len(w.packets("--dst", cache.Address(), "--state", "left")) == 2 })

	topology := w.radar(exitOK, "topo")
	none("topo", topology)
	if !strings.Contains(topology, notAttached) || strings.Count(topology, "host (found)") != 1 {
		t.Errorf("topo does not tell cache from the host:\n%s", topology)
	}
	none("topo -o mermaid", w.radar(exitOK, "topo", "--load", "-o", "mermaid"))
	none("status", w.radar(exitOK, "status"))
	v := w.topology()
	if i := slices.IndexFunc(v.Links, func(l answer.Link) bool { return l.Name == "host/"+bridge && l.Network == network }); i < 0 {
		t.Errorf("JSON has not both names: %+v", v.Links)
	}
	for _, args := range [][]string{{"paths"}, {"latency"}, {"packets", "--dst", cache.Address()}, {"throughput", "--by", "path"}} {
		if out := w.radar(exitOK, args...); !strings.Contains(out, "web > "+notAttached) {
			t.Errorf("%v does not say that cache is not attached:\n%s", args, out)
		}
	}
	if out := w.radar(exitOK, "paths", "-o", "json"); strings.Contains(out, notAttached) || !strings.Contains(out, `"path":"web > host"`) {
		t.Errorf("JSON of paths:\n%s", out)
	}
	w.laterNetworks(d, strings.TrimPrefix(label, "docker:label="))
}

// laterNetworks makes networks whose containers the agent attaches by itself: one whose name can be
// shown, and one that could be taken for something else.
func (w *world) laterNetworks(d *dockertest.Engine, label string) {
	w.Helper()
	for name, shown := range map[string]bool{"later": true, "a > b": false} {
		network := d.Network(name)
		bridge := bridgeOf(d, network)
		d.Run(fmt.Sprintf("on%v", shown), "--network", network, "--label", label)
		want := ""
		if shown {
			want = network
		}
		// The agent asks once for all bridges that are new: when the description names any.
		nstest.WaitFor(w.T, "the bridge's name", func() bool {
			out := w.radar(exitOK, "topo", "-o", "json")
			return strings.Contains(out, "host/"+bridge) && w.network(bridge) == want
		})
		if out := w.radar(exitOK, "topo"); strings.Contains(out, "host/"+bridge) == shown {
			w.Errorf("network %q is shown otherwise:\n%s", network, out)
		}
	}
}

// Where no engine answers, bridges keep their names, and nobody hears of it.
func TestNoDockerNetworks(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	network := d.Network("net")
	web := d.Run("web", "--network", network)
	bridge := bridgeOf(d, network)
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	out, stderr, code := radar(t, "attach", "-d", fmt.Sprintf("web=pid:%d", web.PID()))
	if code != exitOK || stderr != "" || !strings.Contains(out, "host/"+bridge) {
		t.Errorf("exit code %d, said %q, and\n%s", code, stderr, out)
	}
	var v answer.Topology
	if err := json.Unmarshal([]byte(w.radar(exitOK, "topo", "-o", "json")), &v); err != nil || len(v.Links) != 1 || v.Links[0].Network != "" {
		t.Errorf("%+v, %v", v.Links, err)
	}
}
