// SPDX-License-Identifier: Apache-2.0

// Package browser drives the page of `radar serve` in Chromium, as a user does: real labs under
// load, real packets. What the page says is compared with the kernel's own counters.
//
// RADAR_SHOTS names a folder that gets a screenshot of each view. RADAR_BIN names the binary to
// test; without it one is built.
package browser

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

func TestMain(m *testing.M) { radarbin.Main(m) }

// needBrowser ends a test on a machine without Chromium, or without networks.
func needBrowser(t testing.TB) {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "chromium", "ip:iproute2", "tc:iproute2", "iperf3", "nsenter:util-linux", "tcpdump")
}
