// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// machineSysctls are those that Kathará gives its containers: every machine
// forwards, accepts asymmetric routes and answers every expired TTL. They are
// set before there are interfaces, which inherit the values of "default".
func machineSysctls(ipv6 bool) []Setting {
	s := []Setting{
		{"net.ipv4.ip_forward", "1"},
		{"net.ipv4.icmp_ratelimit", "0"},
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
		{"net.ipv4.conf.lo.rp_filter", "0"},
	}
	if !ipv6 {
		return append(s, noIPv6...)
	}
	return append(s,
		Setting{"net.ipv6.conf.all.disable_ipv6", "0"},
		Setting{"net.ipv6.conf.default.disable_ipv6", "0"},
		Setting{"net.ipv6.conf.all.forwarding", "1"},
		Setting{"net.ipv6.conf.all.accept_ra", "0"},
		Setting{"net.ipv6.icmp.ratelimit", "0"},
		// Addresses are there at once; nobody asks for a router that is not there.
		Setting{"net.ipv6.conf.all.accept_dad", "0"},
		Setting{"net.ipv6.conf.default.accept_dad", "0"},
		Setting{"net.ipv6.conf.default.router_solicitations", "0"},
	)
}

// noIPv6 keeps neighbour discovery and MLD off the links.
var noIPv6 = []Setting{
	{"net.ipv6.conf.all.disable_ipv6", "1"},
	{"net.ipv6.conf.default.disable_ipv6", "1"},
}

// setSysctls sets them in the namespace of the calling thread. Where the kernel
// has no IPv6 there is nothing to switch off.
func setSysctls(settings []Setting) error {
	for _, s := range settings {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(s.Key, ".", "/"))
		err := os.WriteFile(path, []byte(s.Value), 0)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(s.Key, ".disable_ipv6") && s.Value == "1" {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set sysctl %s: network namespaces of this kernel have no such sysctl", s.Key)
		}
		if err != nil {
			return fmt.Errorf("set sysctl %s=%s: %w", s.Key, s.Value, err)
		}
	}
	return nil
}
