// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestDialRefuses: reports go to one machine; what an address means is asked in a namespace that
// has a network.
func TestDialRefuses(t *testing.T) {
	n := nstest.New(t, "s", "o")
	n.Veth("s", "eth0", "o", "eth0")
	n.Address("s", "eth0", "10.9.0.1/24")
	n.Up("s", "eth0")
	spec, err := topo.ParseSpec(n.Spec("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Do(func() error {
		for to, want := range map[string]error{
			"10.9.0.2:32766":        nil,
			"10.9.0.255:32766":      syscall.EACCES,
			"255.255.255.255:32766": ErrNotUnicast,
			"224.0.0.1:32766":       ErrNotUnicast,
			"[::ffff:224.0.0.1]:9":  ErrNotUnicast,
			"[ff02::1]:32766":       ErrNotUnicast,
			"0.0.0.0:32766":         ErrNotUnicast,
			"[::]:32766":            ErrNotUnicast,
		} {
			conn, err := Dial(t.Context(), netip.MustParseAddrPort(to))
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", to, err, want)
			}
			if err == nil {
				conn.Close()
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
