// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// nameForm is that of names of intents and nodes.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$`)

const nameRule = "use 1 to 64 letters, digits, '_', '-', '.' or ':', the first a letter, a digit or '_'"

// modes and fallbacks are all of them.
var (
	modes     = []Mode{MD, MD10, MX, XD, Backpack}
	fallbacks = []Fallback{Refuse, Approximate}
)

// maxSample is the greatest N of one packet in N.
const maxSample = 1 << 31

// DefaultHops is how many nodes may add metadata if an intent does not say.
const DefaultHops = 8

// CheckIntents refuses a list of which one makes no sense, or that is too long.
func CheckIntents(list []Intent, now time.Time) error {
	if len(list) > MaxIntents {
		return fieldErrorf("intents", "there are %d: use %d at most", len(list), MaxIntents)
	}
	var errs []error
	seen := make(map[string]int)
	for i := range list {
		path := at("intents", i)
		if first, is := seen[list[i].Name]; is {
			errs = append(errs, fieldErrorf(join(path, "name"), "%q is that of intents[%d], too", list[i].Name, first))
		}
		seen[list[i].Name] = i
		if err := list[i].Check(path, now); err != nil {
			errs = append(errs, err)
		}
		if len(errs) >= mostErrors {
			break
		}
	}
	return errors.Join(errs...)
}

// Check refuses an intent that makes no sense by itself. path is where it stands; now is for its life time. With the
// zero time it is one that is kept: its life time and its expression were looked at when it came.
// Errors are FieldErrors.
func (i *Intent) Check(path string, now time.Time) error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fieldErrorf(join(path, field), format, args...))
	}
	if !nameForm.MatchString(i.Name) {
		wrong("name", "%q: %s", i.Name, nameRule)
	}
	for k, s := range i.States {
		if len(errs) < mostErrors && !slices.Contains(node.InstructionNames(), s) {
			wrong(at("states", k), "there is no %q: use %s", s, strings.Join(node.InstructionNames(), ", "))
		}
	}
	if i.Mode != "" && !slices.Contains(modes, i.Mode) {
		wrong("mode", "%q: use %s", i.Mode, listed(modes))
	}
	if i.Fallback != "" && !slices.Contains(fallbacks, i.Fallback) {
		wrong("fallback", "%q: use %s", i.Fallback, listed(fallbacks))
	}
	if i.Sample > maxSample {
		wrong("sample", "%d: use 1 to %d", i.Sample, maxSample)
	}
	switch mode := i.mode(); {
	case i.Hops > 0 && mode != MD && mode != MD10:
		wrong("hops", "mode %s has no stack of metadata in packets: leave it out", mode)
	case mode == Backpack && len(i.States) > 0:
		wrong("states", "the backpack keeps all that it knows: leave it out")
	}
	if !i.Expires.IsZero() && !i.Expires.After(now) {
		wrong("expires", "%s is over", i.Expires.Format(time.RFC3339))
	}
	for k, name := range i.Devices {
		if !nameForm.MatchString(name) {
			wrong(at("devices", k), "%q: %s", name, nameRule)
		} else if slices.Index(i.Devices, name) < k {
			wrong(at("devices", k), "%q stands there twice", name)
		}
	}
	for field, n := range map[string]int{"states": len(i.States), "devices": len(i.Devices)} {
		if n > maxValues*16 {
			wrong(field, "%d values: use %d at most", n, maxValues*16)
		}
	}
	if i.Slice.Expr != "" && !now.IsZero() {
		errs = append(errs, i.Slice.checkExpr(join(path, "slice"), i.mode()))
	}
	return errors.Join(append(errs, i.Slice.check(join(path, "slice")))...)
}

func listed[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

func (i *Intent) mode() Mode {
	if i.Mode == "" {
		return MD
	}
	return i.Mode
}

// check refuses values that are none, and those that match no packet together.
func (s *Slice) check(path string) error {
	var errs []error
	src, err := prefixes(join(path, "src"), s.Src)
	errs = append(errs, err)
	dst, err := prefixes(join(path, "dst"), s.Dst)
	errs = append(errs, err)
	if errors.Join(errs...) == nil && len(src) > 0 && len(dst) > 0 && !slices.ContainsFunc(src, func(a netip.Prefix) bool {
		return slices.ContainsFunc(dst, func(b netip.Prefix) bool { return a.Addr().Is4() == b.Addr().Is4() })
	}) {
		errs = append(errs, fieldErrorf(join(path, "dst"), "src is of the other version of IP: no packet has both"))
	}
	if s.Proto != "" && s.Proto != "tcp" && s.Proto != "udp" {
		errs = append(errs, fieldErrorf(join(path, "proto"), "%q: use tcp or udp, or leave it out for both (expr: %s with mode: backpack observes others)", s.Proto, s.Proto))
	}
	for field, list := range map[string][]string{"sport": s.Sport, "dport": s.Dport} {
		if len(list) > maxValues {
			errs = append(errs, fieldErrorf(join(path, field), "%d values: use %d at most", len(list), maxValues))
		}
		for i, text := range list {
			if _, err := parsePorts(text); err != nil {
				errs = append(errs, fieldErrorf(place(join(path, field), i, len(list)), "%v", err))
			}
		}
	}
	if s.DSCP != nil && *s.DSCP > 63 {
		errs = append(errs, fieldErrorf(join(path, "dscp"), "%d: use 0 to 63", *s.DSCP))
	}
	return errors.Join(errs...)
}

// place names a value in a list, and a list of one by its name alone.
func place(path string, i, n int) string {
	if n == 1 {
		return path
	}
	return at(path, i)
}

// checkExpr refuses an expression that is none, or stands beside fields. Names are refused: intents come by HTTP, and
// the service compiles them again and again, so that a name would mean other packets each time.
func (s *Slice) checkExpr(path string, mode Mode) error {
	if fields := s.fields(); len(fields) > 0 {
		return fieldErrorf(join(path, "expr"), "%s stands beside it: say all of it in the expression, or leave that out", strings.Join(fields, ", "))
	}
	if len(s.Expr) > maxText {
		return fieldErrorf(join(path, "expr"), "%d bytes: use %d at most", len(s.Expr), maxText)
	}
	if !filter.Available {
		return nil // no device here can do it: that is said of devices
	}
	e, err := filter.CompileNumeric(s.Expr)
	if err != nil {
		return fieldErrorf(join(path, "expr"), "%v", err)
	}
	if mode != Backpack && !e.MatchesTCPOrUDP() {
		return fieldErrorf(join(path, "expr"), "%q: INT is put into TCP and UDP, and no packet of these matches: use one such as \"udp port 5001\", or mode: backpack", s.Expr)
	}
	return nil
}

// fields are those of the 5-tuple that are set.
func (s *Slice) fields() (names []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"src", len(s.Src) > 0}, {"dst", len(s.Dst) > 0}, {"proto", s.Proto != ""},
		{"sport", len(s.Sport) > 0}, {"dport", len(s.Dport) > 0}, {"dscp", s.DSCP != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

func prefixes(path string, list []string) (all []netip.Prefix, err error) {
	if len(list) > maxValues {
		return nil, fieldErrorf(path, "%d values: use %d at most", len(list), maxValues)
	}
	var errs []error
	for i, text := range list {
		p, err := parsePrefix(text)
		if err != nil {
			errs = append(errs, fieldErrorf(place(path, i, len(list)), "%v", err))
			continue
		}
		all = append(all, p)
	}
	return all, errors.Join(errs...)
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, fmt.Errorf("%q: use an address or a prefix, such as 10.0.0.0/8 or 2001:db8::/32", text)
	case p.Masked() != p:
		return p, fmt.Errorf("%q has bits behind its length: use %v", text, p.Masked())
	}
	return p, nil
}

// portRange is one of ports, both ends included.
type portRange struct{ first, last uint16 }

func parsePorts(text string) (r portRange, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 16)
	last, lastErr := strconv.ParseUint(to, 10, 16)
	if err != nil || lastErr != nil {
		return r, fmt.Errorf("%q: use a port, or a range such as 1000-2000", text)
	}
	if first > last {
		return r, fmt.Errorf("%q ends before it begins: use %s-%s", text, to, from)
	}
	return portRange{uint16(first), uint16(last)}, nil
}

// DefaultConfig is what holds where a Config says nothing.
func DefaultConfig() Config {
	o := node.DefaultOptions()
	return Config{Mark: o.Mark.String(), Collector: "127.0.0.1:32766", Report: o.Report, Quote: o.Quote}
}

// maxNodeID is the greatest id of a node: all ones mean that it is not known.
const maxNodeID = 0xfffffffe

// Check refuses a config that makes no sense. Errors are FieldErrors.
func (c *Config) Check() error {
	var errs []error
	wrong := func(field, format string, args ...any) { errs = append(errs, fieldErrorf(field, format, args...)) }
	mark, err := node.ParseMark(c.Full().Mark)
	if err != nil {
		wrong("mark", "%s", strings.TrimPrefix(err.Error(), "‹mark› "))
	}
	host, port, err := net.SplitHostPort(c.Full().Collector)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || host == "" || numberErr != nil || number == 0:
		wrong("collector", "%q: use HOST:PORT or [IPV6]:PORT, the port 1 to 65535", c.Collector)
	case mark.Mask == 0 && mark.Port == uint16(number):
		wrong("mark", "%v: that is the port of the reports to %s", mark, c.Full().Collector)
	}
	if kind, name, _ := strings.Cut(c.Via, ":"); c.Via != "" && (name == "" || !slices.Contains([]string{"netns", "docker", "pid"}, kind)) {
		wrong("via", "%q: use netns:NAME, docker:NAME or pid:N", c.Via)
	}
	if r := c.Full().Report; r != node.Report20 && r != node.Report10 {
		wrong("report", "%q: use %s or %s", r, node.Report20, node.Report10)
	}
	if c.Quote < 0 || c.Quote > node.MaxQuote {
		wrong("quote", "%d: use 0 to %d", c.Quote, node.MaxQuote)
	}
	owner := make(map[uint32]string)
	names := make([]string, 0, len(c.NodeIDs))
	for name := range c.NodeIDs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id := c.NodeIDs[name]
		if id == 0 || id > maxNodeID {
			wrong("node_ids."+name, "%d: use 1 to %d", id, uint32(maxNodeID))
		} else if other, is := owner[id]; is {
			wrong("node_ids."+name, "%d is the id of %s, too", id, other)
		}
		owner[id] = name
	}
	return errors.Join(errs...)
}

// Full is the config with defaults in place of what it does not say.
func (c Config) Full() Config {
	d := DefaultConfig()
	if c.Mark == "" {
		c.Mark = d.Mark
	}
	if c.Collector == "" {
		c.Collector = d.Collector
	}
	if c.Report == "" {
		c.Report = d.Report
	}
	if c.Quote == 0 {
		c.Quote = d.Quote
	}
	return c
}

// Check refuses what makes no sense together. Errors are FieldErrors. Life times are not looked at: they
// are those of intents when they are added.
func (w *Wanted) Check() error {
	errs := []error{w.Config.Check(), CheckIntents(w.Intents, time.Time{}), w.Topology.Check()}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	mark, _ := node.ParseMark(w.Config.Full().Mark) // checked above
	devices := w.Topology.deviceNames()
	for i := range w.Intents {
		it := &w.Intents[i]
		if it.mode() == MD10 && mark.Mask == 0 {
			errs = append(errs, fieldErrorf(join(at("intents", i), "mode"), "md1.0 is not marked by a port, and the config's mark is %v: use mark dscp=VALUE/MASK, or mode md", mark))
		}
		for k, name := range it.Devices {
			if len(devices) > 0 && !slices.Contains(devices, name) {
				errs = append(errs, fieldErrorf(at(join(at("intents", i), "devices"), k), "there is no device %q: use %s", name, strings.Join(devices, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// CheckDevices refuses ids of devices that are not there.
func (c *Config) CheckDevices(t *Topology) error {
	var errs []error
	devices := t.deviceNames()
	for name := range c.NodeIDs {
		if len(devices) > 0 && !slices.Contains(devices, name) {
			errs = append(errs, fieldErrorf("node_ids."+name, "there is no device of that name: use %s", strings.Join(devices, ", ")))
		}
	}
	return errors.Join(errs...)
}
