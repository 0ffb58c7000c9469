// SPDX-License-Identifier: Apache-2.0

package transparency

// trainCase6 is trains of IPv6 through a queue at r2: all segments of a train have one
// flow label, so nothing but their content says which is which.
func trainCase6(name, shows string, needs []string, queue ...string) Case {
	return Case{
		Name: name, Point: 3, Shows: shows, Needs: needs,
		Build: func(w *World) {
			chain6(w)
			w.Queue("r2", "eth1", queue...)
		},
		Send: func(w *World) {
			for i := range 6 {
				p := w.TCP(out6, far6, ACK, 1000*(2+i*3))
				p.Label = uint32(i) * 0x1111
				w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
				w.Send("out", w.UDP(out6, far6, 64))
			}
		},
	}
}

var (
	_ = add(trainCase6("ipv6/trains-tbf", "IPv6 trains of TCP that a token bucket cuts", []string{"tbf"},
		"handle", "1:", "tbf", "rate", "50mbit", "burst", "3000", "limit", "500kb"))
	_ = add(trainCase6("ipv6/trains-htb", "IPv6 trains that stay whole", []string{"htb"},
		"handle", "1:", "htb", "default", "1", "r2q", "1"))
)
