// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// networkOf is what the domain's description says that a bridge is.
func networkOf(w *clitest.World, bridge string) string {
	w.Helper()
	d, err := domain.Load(w.Domain)
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
	none("attach", w.Radar(kit.ExitOK, "attach", "-d", "--watch-containers", "web=docker:"+web.Name, "db=docker:"+db.Name, label))
	if got := networkOf(w, bridge); got != network {
		t.Fatalf("the description says that %s is %q, want %q", bridge, got, network)
	}
	web.Exec("ping", "-c", "2", "-i", "0.1", "-W", "60", db.Address())
	web.Exec("ping", "-c", "2", "-i", "0.1", "-W", "60", cache.Address())
	nstest.WaitFor(t, "the packets' records", func() bool { return len(w.Packets("--dst", cache.Address(), "--state", "left")) == 2 })

	shown := w.Radar(kit.ExitOK, "topo")
	none("topo", shown)
	if !strings.Contains(shown, wording.NotAttached) || strings.Count(shown, "host (found)") != 1 {
		t.Errorf("topo does not tell cache from the host:\n%s", shown)
	}
	none("topo -o mermaid", w.Radar(kit.ExitOK, "topo", "--load", "-o", "mermaid"))
	none("status", w.Radar(kit.ExitOK, "status"))
	v := topologyOf(w)
	if i := slices.IndexFunc(v.Links, func(l topology.Link) bool { return l.Name == "host/"+bridge && l.Network == network }); i < 0 {
		t.Errorf("JSON has not both names: %+v", v.Links)
	}
	for _, args := range [][]string{{"paths"}, {"latency"}, {"packets", "--dst", cache.Address()}, {"throughput", "--by", "path"}} {
		if out := w.Radar(kit.ExitOK, args...); !strings.Contains(out, "web > "+wording.NotAttached) {
			t.Errorf("%v does not say that cache is not attached:\n%s", args, out)
		}
	}
	if out := w.Radar(kit.ExitOK, "paths", "-o", "json"); strings.Contains(out, wording.NotAttached) || !strings.Contains(out, `"path":"web > host"`) {
		t.Errorf("JSON of paths:\n%s", out)
	}
	laterNetworks(w, d, strings.TrimPrefix(label, "docker:label="))
}

// laterNetworks makes networks whose containers the agent attaches by itself: one whose name can be
// shown, and one that could be taken for something else.
func laterNetworks(w *clitest.World, d *dockertest.Engine, label string) {
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
			out := w.Radar(kit.ExitOK, "topo", "-o", "json")
			return strings.Contains(out, "host/"+bridge) && networkOf(w, bridge) == want
		})
		if out := w.Radar(kit.ExitOK, "topo"); strings.Contains(out, "host/"+bridge) == shown {
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
	out, stderr, code := clitest.Radar(t, "attach", "-d", fmt.Sprintf("web=pid:%d", web.PID()))
	if code != kit.ExitOK || stderr != "" || !strings.Contains(out, "host/"+bridge) {
		t.Errorf("exit code %d, said %q, and\n%s", code, stderr, out)
	}
	var v topology.Topology
	if err := json.Unmarshal([]byte(w.Radar(kit.ExitOK, "topo", "-o", "json")), &v); err != nil || len(v.Links) != 1 || v.Links[0].Network != "" {
		t.Errorf("%+v, %v", v.Links, err)
	}
}
