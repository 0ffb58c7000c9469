// SPDX-License-Identifier: Apache-2.0

// Package e2e measures real containers, of Docker and of Kathará, by their names,
// and holds the result to captures and to what the senders sent.
//
// The tests need root, a Docker engine (one that runs, or dockerd to start one),
// and tcpdump, ip, ethtool and iptables; those of Kathará also what ../setup.sh
// needs. RADAR_BIN names the binary to test; without it one is built.
package e2e

import (
	"os"
	"testing"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

func TestMain(m *testing.M) {
	code := dockertest.Main(m)
	radarbin.Remove()
	os.Exit(code)
}

// engine is a Docker engine, for a test whose other needs are met.
func engine(t *testing.T) *dockertest.Engine {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "tcpdump", "ip:iproute2", "ethtool", "iptables", "nsenter:util-linux", "sysctl:procps")
	return dockertest.New(t)
}
