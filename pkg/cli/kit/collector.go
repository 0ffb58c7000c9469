// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

// ResolveCollector finds the address of HOST:PORT; of a name with several the first.
func ResolveCollector(ctx context.Context, text string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(text)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || numberErr != nil || number == 0 {
		return netip.AddrPort{}, fault.Usage.Errorf("--collector %q: use HOST:PORT or [IPV6]:PORT, the port 1 to 65535", text)
	}
	addr, err := send.FindHost(ctx, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("collector %s: %w", text, err)
	}
	if err := send.CheckAddress(addr); err != nil {
		return netip.AddrPort{}, fault.Usage.Errorf("--collector %s: %v", text, err)
	}
	return netip.AddrPortFrom(addr, uint16(number)), nil
}
