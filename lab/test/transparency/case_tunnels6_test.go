// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// ofTunnel6 leaves out reports of listeners that go through a tunnel, as those outside
// of one are.
var ofTunnel6 = Rule{
	Name: "discovery-inside", Why: "listener discovery of IPv6 follows timers, in tunnels too",
	Skip: func(s *sighting) bool {
		d := s.decoded
		return d != nil && d.token == 0 && (d.proto == 4 || d.proto == 41 || d.proto == 47)
	},
}

// plainTraffic6 is that of plainTraffic by IPv6.
func plainTraffic6(w *World) {
	for _, way := range [][3]string{{"out", out6, far6}, {"far", far6, out6}} {
		for i := range 4 {
			for _, p := range kinds6(w, way[1], way[2]) {
				p.TTL = []uint8{64, 80, 4, 255}[i]
				w.Send(way[0], p)
			}
		}
	}
}

// viaTunnel6 is viaTunnel with a tunnel whose outer or inner packets are IPv6.
func viaTunnel6(w *World, local, remote string, kind ...string) {
	chain(w)
	w.Route("r1", "fd00:3::/64", "fd00:2::2")
	w.Route("r3", "fd00:2::/64", "fd00:3::1")
	w.Device("r1", "tun", "10.0.9.1/24 fd00:9::1/64", append(append([]string{"type"}, kind...), "local", local, "remote", remote)...)
	w.Device("r3", "tun", "10.0.9.2/24 fd00:9::2/64", append(append([]string{"type"}, kind...), "local", remote, "remote", local)...)
	w.Run("r1", "ip", "-6", "route", "replace", "fd00:4::/64", "dev", "tun")
	w.Run("r3", "ip", "-6", "route", "replace", "fd00:1::/64", "dev", "tun")
	if kind[0] != "sit" {
		w.Run("r1", "ip", "route", "replace", "10.0.4.0/24", "dev", "tun")
		w.Run("r3", "ip", "route", "replace", "10.0.1.0/24", "dev", "tun")
	}
	w.Listen("out", "[::]:7")
	w.Listen("far", "[::]:7")
	w.Attach("r1", "r2", "r3")
}

// tunnelCase6 is a case of one kind of tunnel.
func tunnelCase6(name, shows, needs, local, remote string, kind ...string) Case {
	return Case{
		Name: "tunnels/" + name, Point: 6, Shows: shows, Needs: []string{needs},
		Fresh: true, // other cases' packets have the same keys
		Build: func(w *World) { viaTunnel6(w, local, remote, kind...) },
		Send: func(w *World) {
			plainTraffic6(w)
			if kind[0] != "sit" {
				plainTraffic(w)
			}
		},
		Rules: []Rule{ofTunnel6},
		Check: linkedTunnel,
	}
}

var (
	_ = add(withoutEthernet(tunnelCase6("sit", "IPv6 through a tunnel of IPv4 (SIT), whose outer TTL is the inner one", "sit",
		"10.0.2.1", "10.0.3.2", "sit")))
	_ = add(withoutEthernet(tunnelCase6("sit-ttl", "one with a TTL of its own", "sit", "10.0.2.1", "10.0.3.2", "sit", "ttl", "64")))
	_ = add(withoutEthernet(tunnelCase6("ip6tnl", "both versions through a tunnel of IPv6", "ip6tnl",
		"fd00:2::1", "fd00:3::2", "ip6tnl", "mode", "any", "encaplimit", "none")))
	_ = add(withoutEthernet(tunnelCase6("ip6tnl-inherit", "one whose outer traffic class and flow label are the inner ones", "ip6tnl",
		"fd00:2::1", "fd00:3::2", "ip6tnl", "mode", "any", "encaplimit", "none", "tclass", "inherit", "flowlabel", "inherit")))
	_ = add(withoutEthernet(tunnelCase6("ip6gre", "both versions through GRE over IPv6", "ip6gre",
		"fd00:2::1", "fd00:3::2", "ip6gre", "encaplimit", "none")))
)

// wireguard makes the two ends of a WireGuard tunnel, and has them shake hands.
func wireguard(w *World) {
	ends := []struct{ node, addr, endpoint string }{
		{"r1", "10.0.9.1/24", "10.0.2.1"}, {"r3", "10.0.9.2/24", "10.0.3.2"},
	}
	dir := w.T.TempDir()
	var public []string
	for _, e := range ends {
		private := w.Run(e.node, "wg", "genkey")
		file := filepath.Join(dir, e.node)
		if err := os.WriteFile(file, []byte(private), 0o600); err != nil {
			w.T.Fatal(err)
		}
		public = append(public, strings.TrimSpace(w.Run(e.node, "sh", "-c", "wg pubkey < "+file)))
		w.Sysctl(e.node, "ipv6/conf/default/disable_ipv6", "1")
		w.Device(e.node, "tun", e.addr, "type", "wireguard")
		w.Sysctl(e.node, "ipv6/conf/default/disable_ipv6", "0")
		w.Run(e.node, "wg", "set", "tun", "listen-port", "51820", "private-key", file)
	}
	for i, e := range ends {
		w.Run(e.node, "wg", "set", "tun", "peer", public[1-i], "endpoint", ends[1-i].endpoint+":51820", "allowed-ips", "0.0.0.0/0")
	}
	w.Run("r1", "ip", "route", "replace", "10.0.4.0/24", "dev", "tun")
	w.Run("r3", "ip", "route", "replace", "10.0.1.0/24", "dev", "tun")
	w.Run("r1", "ping", "-c", "1", "-W", "120", "10.0.9.2")
}

var _ = add(Case{
	Name: "tunnels/wireguard", Point: 6,
	Shows: "a WireGuard tunnel: the inner packet before and after, the outer one as a packet of its own",
	Needs: []string{"wireguard"}, Fresh: true,
	Loose: true, // nobody can read what is inside
	Build: func(w *World) {
		chain(w)
		wireguard(w)
		w.Listen("out", "0.0.0.0:7")
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: plainTraffic,
	Check: func(r *Run) {
		before, after, outer := 0, 0, 0
		for i := range r.Records {
			rec := &r.Records[i]
			first, last := rec.Hops[0], rec.Hops[len(rec.Hops)-1]
			switch {
			case deref(rec.Dport) == 51820:
				if len(rec.Hops) != 3 || rec.State != record.Delivered {
					r.T.Errorf("an outer packet should go from r1 or r3 to the other: %s", show(rec))
				}
				outer += rec.Segs
			case last.Port == "tun":
				before += rec.Segs
			case first.InPort == "tun", r.Mode == Header && rec.State == record.Left: // the header has its source where it leaves
				after += rec.Segs
			default:
				r.T.Errorf("a packet that did not go through the tunnel: %s", show(rec))
			}
		}
		if before == 0 || before != after || outer < before {
			r.T.Errorf("%d packets before the tunnel, %d behind it, %d outer ones", before, after, outer)
		}
	},
})
