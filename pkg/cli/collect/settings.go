// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// settings are the flags, read.
type settings struct {
	info       *collect.Info
	allow      []netip.Prefix
	translator *collect.Translator
	metrics    metrics.Config
}

// readSettings reads the flags, and refuses what cannot be meant.
func (f *options) readSettings(cmd *cobra.Command) (s settings, err error) {
	if s.info, err = f.info(); err != nil {
		return s, fault.Usage.Errorf("%w", err)
	}
	if s.allow, err = parseAllow(f.allow); err != nil {
		return s, fault.Usage.Errorf("%w", err)
	}
	if s.translator, err = s.info.Translator(); err != nil {
		return s, fault.Usage.Errorf("--source: %w", err)
	}
	if err := f.checkBounds(); err != nil {
		return s, err
	}
	if err := f.eventTime(cmd, s.translator); err != nil {
		return s, err
	}
	if s.metrics, err = f.config(); err != nil {
		return s, fault.Usage.Errorf("%w", err)
	}
	if err := f.checkInputs(cmd); err != nil {
		return s, err
	}
	return s, f.fast.check(cmd, f.file)
}

// checkBounds checks what has a least or a most.
func (f *options) checkBounds() error {
	switch {
	case f.join < 0 || f.join > time.Minute:
		return fault.Usage.Errorf("--join %v: use 0 to 1m", f.join)
	case f.keep < store.MinKeep:
		return fault.Usage.Errorf("--keep %v: use at least 64k", &f.keep)
	case f.keepRows < store.MinKeep:
		return fault.Usage.Errorf("--keep-metrics %v: use at least 64k", &f.keepRows)
	}
	return nil
}

// eventTime says which time events have.
func (f *options) eventTime(cmd *cobra.Command, t *collect.Translator) error {
	if f.skew <= 0 || f.skew > mostSkew {
		return fault.Usage.Errorf("--max-skew %v: use up to %v", f.skew, mostSkew)
	}
	if f.time.Value == byReport {
		t.MostSkew = f.skew
	} else if kit.IsTyped(cmd, "max-skew") {
		return fault.Usage.Errorf("--max-skew is about --event-time report: give both")
	}
	return nil
}

// nodeNameRE is what a node may be called: it stands in tables and paths.
var nodeNameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$`)

// info is what the flags say, for readers too.
func (f *options) info() (*collect.Info, error) {
	var epoch [4]byte
	_, _ = rand.Read(epoch[:])
	info := &collect.Info{
		Epoch: binary.NativeEndian.Uint32(epoch[:]), PID: os.Getpid(), Since: time.Now().UTC(), Join: f.join, All: f.all,
		Profiles: make(map[string]string), Names: make(map[uint32]string),
	}
	for _, port := range f.ports {
		if port == 0 || port > 65535 {
			return nil, fmt.Errorf("--port %d: use 1 to 65535", port)
		}
		if slices.Contains(info.Ports, uint16(port)) {
			return nil, fmt.Errorf("--port %d: twice", port)
		}
		info.Ports = append(info.Ports, uint16(port))
	}
	for _, s := range joinSettings(f.sources, collect.SourceSettings...) {
		text, profile, ok := strings.Cut(s, "=")
		addr, err := netip.ParseAddr(text)
		if !ok || err != nil {
			return nil, fmt.Errorf("--source %q: use ADDRESS=PROFILE, or ADDRESS=PROFILE,latency=us", s)
		}
		if _, twice := info.Profiles[addr.String()]; twice {
			return nil, fmt.Errorf("--source %s: twice", addr)
		}
		info.Profiles[addr.String()] = profile
	}
	for _, s := range f.nodes {
		text, name, ok := strings.Cut(s, "=")
		id, err := strconv.ParseUint(text, 0, 32)
		if !ok || err != nil || !nodeNameRE.MatchString(name) {
			return nil, fmt.Errorf("--node %q: use ID=NAME, the id 0 to %d, the name of letters, digits, '_', '.', ':', '-'", s, uint32(1<<32-1))
		}
		if _, twice := info.Names[uint32(id)]; twice {
			return nil, fmt.Errorf("--node %s: twice", text)
		}
		info.Names[uint32(id)] = name
	}
	return info, nil
}

// joinSettings puts back together what a list has cut at a comma: entries that begin with one of the
// words belong to the one before.
func joinSettings(list []string, words ...string) (joined []string) {
	begins := func(s string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(s, word) })
	}
	for _, s := range list {
		if n := len(joined); n > 0 && begins(s) {
			joined[n-1] += "," + s
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// mostAllowed is how many prefixes --allow takes: each datagram is held against all of them.
const mostAllowed = 256

// parseAllow reads --allow.
func parseAllow(list []string) (allow []netip.Prefix, err error) {
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			addr, err := netip.ParseAddr(s)
			if err != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("--allow %q: use an address, or a prefix such as 10.0.0.0/8", s)
			}
			addr = addr.Unmap()
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		switch {
		case p.Addr().Is4In6():
			return nil, fmt.Errorf("--allow %s: write the prefix as IPv4 does", s)
		case p != p.Masked():
			return nil, fmt.Errorf("--allow %s: bits behind the prefix are set: did you mean %v, or %v?", s, p.Masked(), p.Addr())
		case slices.Contains(allow, p):
			return nil, fmt.Errorf("--allow %s: twice", s)
		}
		allow = append(allow, p)
	}
	if len(allow) > mostAllowed {
		return nil, fmt.Errorf("--allow: %d prefixes: use at most %d", len(allow), mostAllowed)
	}
	return allow, nil
}
