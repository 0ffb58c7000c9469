// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// Route is how reports get to a collector, as routes are now.
type Route struct {
	From      string     // namespace
	Interface string     // by which they leave it
	Router    netip.Addr // to which; not valid: the collector is on the link, or there
}

// RouteOfReports is that of reports sent from a namespace, which is what Config.Via may name; "": that of this process.
func RouteOfReports(ctx context.Context, via string, to netip.Addr) (w Route, err error) {
	from := node.Here()
	if via != "" {
		if from, err = findNetns(ctx, control.Device{Name: via, Spec: via}); err != nil {
			return w, err
		}
	}
	w.From = from.Name
	err = from.Do(func() error {
		routes, err := netlink.RouteGet(to.AsSlice())
		if err != nil || len(routes) == 0 {
			return fmt.Errorf("no route to %v from %s: %w", to, from.Name, err)
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return fmt.Errorf("route to %v from %s: %w", to, from.Name, err)
		}
		w.Interface = link.Attrs().Name
		if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
			w.Router = gw.Unmap()
		}
		return nil
	})
	return w, err
}
