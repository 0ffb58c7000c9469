// SPDX-License-Identifier: Apache-2.0

// Package inspect asks the kernel of a node what it would do with a packet now: its route, the sockets that wait for it,
// the state of addresses and of bridge ports, settings. It changes nothing. Each question costs the same whatever the node
// holds, or is cut off at a bound; whoever asks sets the deadline.
package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// maxSetting bounds the value of a setting, bytes.
const maxSetting = 64

// Settings are the values of sysctls below net, by names such as "ipv4/ip_forward". One that the kernel does not have is
// absent.
func Settings(node topo.NodeSpec, names ...string) (values map[string]string, err error) {
	values = make(map[string]string)
	err = node.Do(func() error {
		for _, name := range names {
			if !filepath.IsLocal(name) { // a part of it can be the name of a port
				continue
			}
			text, err := os.ReadFile("/proc/sys/net/" + name)
			if text = bytes.TrimSpace(text); err == nil && len(text) <= maxSetting {
				values[name] = string(text)
			}
		}
		return nil
	})
	return values, err
}

// Sysctl is how people write a setting and its value: "net.ipv4.ip_forward=0".
func Sysctl(name, value string) string {
	return "net." + strings.ReplaceAll(name, "/", ".") + "=" + value
}
