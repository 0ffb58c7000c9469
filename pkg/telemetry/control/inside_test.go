// SPDX-License-Identifier: Apache-2.0

package control

import (
	"strings"
	"testing"
)

// A neighbour that becomes a device makes a port inside of one that led outside. Wherever the service is killed meanwhile,
// no source gives INT while one end of a link takes it for the outside: packets would pass there under a cover.
func TestEdgeComesInside(t *testing.T) {
	small := func(x *Wanted) { x.Topology.Nodes[3].Driver, x.Topology.Nodes[3].Spec = "", "" }
	for _, half := range []bool{false, true} {
		for at := 1; ; at++ {
			w, store := newWorld(t), openStore(t)
			w.links = chain().Links
			w.want(store, start)
			w.want(store, small)
			w.run(store, applied(t, store))
			before := len(w.log)
			w.crashAt, w.half = before+at, half
			w.want(store, func(x *Wanted) { x.Topology = chain() })
			for range 2 {
				w.run(store, applied(t, store))
			}
			w.want(store, small)
			w.run(store, applied(t, store))
			w.want(store, func(x *Wanted) { x.Topology = chain() })
			w.run(store, applied(t, store))
			if len(w.log) < before+at {
				break
			}
		}
	}
}

// follow wants INT from a device, where it came by a port (none: it gives it), to reach neither a host nor an edge that
// takes it for a packet from outside.
func (w *world) follow(after, device, by string) {
	for _, link := range w.links {
		for i := range link {
			from, to := link[i], link[1-i]
			name, port, _ := strings.Cut(from, "/")
			if name != device || port == by || w.role(from) == Edge || by == "" && w.role(from) == "" {
				continue
			}
			next, came, _ := strings.Cut(to, "/")
			if next[0] == 'h' || w.role(to) == Edge {
				w.t.Errorf("after %q INT goes from %s to %s, which is %q\n%q", after, from, to, w.role(to), w.log)
				continue
			}
			w.follow(after, next, came)
		}
	}
}

// role is what a port holds now; "": nothing.
func (w *world) role(port string) Role {
	device, name, _ := strings.Cut(port, "/")
	for _, p := range w.holds[device].Ports {
		if p.Name == name {
			return p.Role
		}
	}
	return ""
}
