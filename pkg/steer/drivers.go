// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/control/ebpf"
	"github.com/vnetradar/radar/pkg/telemetry/control/mapped"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/vnet/selector"
)

// drivers are those of this radar, for an INT domain.
func drivers(domain string) map[string]control.Driver {
	all := make(map[string]control.Driver)
	for _, d := range []control.Driver{
		&ebpf.Driver{Domain: domain, Find: findNetns},
		&p4runtime.Driver{Find: findNetns},
		&mapped.Driver{Find: findNetns},
		backpack{},
	} {
		all[d.Name()] = d
	}
	return all
}

// findNetns finds the namespace that a device's spec names.
func findNetns(ctx context.Context, d control.Device) (node.Place, error) {
	found, err := selector.Resolve(ctx, selector.Request{Selectors: []string{d.Spec}})
	switch {
	case err != nil && isGone(d.Spec):
		return node.Place{}, fmt.Errorf("%w: there is no %s", control.ErrGone, d.Spec)
	case err != nil:
		return node.Place{}, err
	case len(found.Nodes) != 1:
		return node.Place{}, fault.Usage.Errorf("%s is %d namespaces: a device is one", d.Spec, len(found.Nodes))
	}
	n := found.Nodes[0]
	return node.Place{Name: d.Name, Spec: d.Spec, Path: n.Path, Inum: n.Inum}, nil
}

// isGone reports whether the name of a namespace, or a process, is there no more. The engine knows its
// containers: one that does not answer is no news of them.
func isGone(spec string) bool {
	kind, rest, _ := strings.Cut(spec, ":")
	path := ""
	switch kind {
	case "netns":
		path = rest
		if !filepath.IsAbs(rest) {
			path = filepath.Join("/run/netns", rest)
		}
	case "pid":
		path = filepath.Join("/proc", rest)
	default:
		return false
	}
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}
