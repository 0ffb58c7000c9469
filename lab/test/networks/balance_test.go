// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// balanced promises that flows use both next hops of r1.
const balanced = `assertions:
  - name: both legs are used
    select: {src: a, proto: tcp}
    balance: {over: next_hops, at: r1, ways: 2}
`

// TestBalance: a router that hashes addresses alone sends all flows of two hosts one way, and the assertion says that.
func TestBalance(t *testing.T) {
	file := filepath.Join(t.TempDir(), "legs.yaml")
	if err := os.WriteFile(file, []byte(balanced), 0o600); err != nil {
		t.Fatal(err)
	}
	n := network{
		nodes: "a r1 r2 r3 b",
		build: func(w *world) {
			w.wire("a/eth0", "10.1.0.1/24", "r1/e0", "10.1.0.254/24")
			for i, r := range []string{"r2", "r3"} {
				leg := string(rune('2' + i))
				w.wire("r1/e"+leg, "10.1"+leg+".0.1/24", r+"/e0", "10.1"+leg+".0.2/24")
				w.wire(r+"/e1", "10.2"+leg+".0.1/24", "b/e"+leg, "10.2"+leg+".0.2/24")
				w.sh(r, "ip route add 10.1.0.0/24 via 10.1"+leg+".0.1; ip route add 10.9.0.9 via 10.2"+leg+".0.2")
			}
			w.forwards("r1", "r2", "r3")
			w.sh("a", "ip route add default via 10.1.0.254")
			w.sh("b", "ip addr add 10.9.0.9/32 dev lo; ip route add default via 10.22.0.1")
			w.sh("r1", "ip route add 10.9.0.9 nexthop via 10.12.0.2 nexthop via 10.13.0.2")
			w.serve("b", "10.9.0.9:80")
		},
		symptom: func(w *world) bool {
			sent := func() string {
				return strings.TrimSpace(w.sh("r1", "awk '/e[23]:/ {print ($11 > 60)}' /proc/thread-self/net/dev"))
			}
			for range 24 {
				if err := w.connect("a", "10.9.0.9:80", 1000); err != nil {
					w.Fatal(err)
				}
			}
			return sent() != "1\n1"
		},
		asks: []ask{{"assert " + file, []string{`r1 chooses by addresses alone \(net\.ipv4\.fib_multipath_hash_policy=0\)`}, ""}},
	}
	n.run(t)
}
