// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// compiled is what intents become.
type compiled struct {
	states    map[string]State    // of each device, as soon as all others are ready
	reasons   map[string][]Reason // of each intent
	devices   map[string][]string // of each intent: who gets an entry
	notes     map[string][]string // of each device
	conflicts []Conflict
	graph     *domainGraph
}

// compiler turns intents into what devices hold.
type compiler struct {
	*compiled
	w         *Wanted
	config    Config               // with defaults
	mark      node.Mark            // of it
	abilities map[string]Abilities // of devices that have answered
}

// compile works out what each device is to hold. A device whose abilities are not known yet gets no entry.
func compile(w *Wanted, abilities map[string]Abilities, collector netip.AddrPort, now time.Time) *compiled {
	c := &compiler{
		compiled: &compiled{
			states: make(map[string]State), reasons: make(map[string][]Reason), devices: make(map[string][]string),
			notes: make(map[string][]string), graph: w.Topology.graph(),
		},
		w: w, config: w.Config.Full(), abilities: abilities,
	}
	c.mark, _ = node.ParseMark(c.config.Mark) // Check has passed it
	for _, name := range w.Topology.deviceNames() {
		c.states[name] = c.base(name, collector)
	}
	live := inOrder(w.Intents, now)
	c.conflicts = conflicts(live)
	for i := range live {
		if mode := live[i].mode(); mode == XD || mode == Backpack {
			c.perDevice(&live[i])
		} else {
			c.perGroup(&live[i])
		}
	}
	return c.compiled
}

// inOrder are the intents whose time is not over: the first that matches a packet counts.
func inOrder(list []Intent, now time.Time) []Intent {
	live := slices.DeleteFunc(slices.Clone(list), func(i Intent) bool { return i.isOver(now) })
	SortIntents(live)
	return live
}

// SortIntents sorts by priority, the greatest first, then by age, then by name.
func SortIntents(list []Intent) {
	slices.SortStableFunc(list, func(a, b Intent) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
}

func (i *Intent) isOver(now time.Time) bool { return !i.Expires.IsZero() && !i.Expires.After(now) }

// base is a device's State without entries.
func (c *compiler) base(name string, collector netip.AddrPort) State {
	s := State{
		NodeID: c.config.NodeIDs[name], DomainID: c.config.DomainID, Mark: c.mark.String(), Collector: collector, Via: c.config.Via,
		Report: c.config.Report, Quote: c.config.Quote, Ports: c.graph.ports[name],
	}
	if a, known := c.abilities[name]; known && len(a.Reports) > 0 && !slices.Contains(a.Reports, s.Report) {
		c.notef(name, "report: it sends version %s, and none of %s", a.Reports[0], s.Report)
		s.Report = a.Reports[0]
	}
	return s
}

func (c *compiler) notef(device, format string, args ...any) {
	c.notes[device] = append(c.notes[device], fmt.Sprintf(format, args...))
}

// say keeps why a device does nothing for an intent, or (approximated) what it does in its place.
func (c *compiler) say(i *Intent, device, field string, approximated bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.reasons[i.Name] = append(c.reasons[i.Name], Reason{Device: device, Field: field, Text: text, Approximated: approximated})
	if approximated {
		c.notef(device, "intent %s: %s: %s", i.Name, field, text)
	}
}

// canMark reports whether a device knows the packets that bear INT.
func (c *compiler) canMark(a *Abilities) bool {
	return c.mark.Mask != 0 && a.MarkDSCP || c.mark.Mask == 0 && a.MarkPort
}

// perDevice gives an intent to devices each of which reports by itself.
func (c *compiler) perDevice(i *Intent) {
	for _, name := range c.w.Topology.deviceNames() {
		a, known := c.abilities[name]
		if !known || !i.isFor(name) || c.speaksINT(name) == (i.mode() == Backpack) || i.mode() == XD && !a.Postcards && !c.graph.hasEdge(name) {
			continue
		}
		if !slices.Contains(a.Modes, i.mode()) {
			c.say(i, name, "mode", false, "%s has no mode %s", name, i.mode())
			continue
		}
		if bitmap, ok := c.instructions(i, name); ok {
			c.enter(i, name, i.mode(), bitmap)
		}
	}
}

func (c *compiler) speaksINT(name string) bool { return c.w.Topology.Node(name).speaksINT() }

func (i *Intent) isFor(device string) bool {
	return len(i.Devices) == 0 || slices.Contains(i.Devices, device)
}

// instructions is what a device can report by itself.
func (c *compiler) instructions(i *Intent, name string) (bitmap uint16, ok bool) {
	a := c.abilities[name]
	bitmap = i.bitmap()
	lacks := bitmap &^ a.Instructions
	switch {
	case lacks == 0 || i.mode() == Backpack:
	case len(i.States) == 0: // it was not asked for by name
		bitmap &= a.Instructions
	case i.Fallback != Approximate:
		c.say(i, name, "states", false, "%s cannot report %s", name, node.InstructionText(lacks))
		return 0, false
	default:
		c.say(i, name, "states", true, "%s cannot report %s: it reports the others", name, node.InstructionText(lacks))
		bitmap &= a.Instructions
	}
	if bitmap == 0 {
		c.say(i, name, "states", false, "%s can report nothing of it", name)
		return 0, false
	}
	return bitmap, true
}

// bitmap is that of the intent's states.
func (i *Intent) bitmap() uint16 {
	if len(i.States) == 0 {
		return node.DefaultInstructions
	}
	bitmap, _ := node.ParseInstructions(strings.Join(i.States, ",")) // Check has passed them
	return bitmap
}

// perGroup gives an intent whose packets carry something to the sources of each group. All devices of it
// must be able to do their part: transits add, and all with hosts take it off.
func (c *compiler) perGroup(i *Intent) {
	done := make(map[int]bool)
	for _, name := range c.w.Topology.deviceNames() {
		group := c.graph.group[name]
		if done[group] || !c.speaksINT(name) {
			continue
		}
		done[group] = true
		var members, sources []string
		for _, other := range c.w.Topology.deviceNames() {
			if _, known := c.abilities[other]; !known || c.graph.group[other] != group || !c.speaksINT(other) {
				continue
			}
			members = append(members, other)
			if c.graph.hasEdge(other) && i.isFor(other) {
				sources = append(sources, other)
			}
		}
		if len(sources) == 0 {
			continue
		}
		mode, ok := c.groupMode(i, members, sources)
		if !ok {
			continue
		}
		bitmap, ok := c.groupInstructions(i, members)
		if !ok {
			continue
		}
		for _, source := range sources {
			c.enter(i, source, mode, bitmap)
		}
	}
}

// alternatives are modes in place of one that a device has not.
var alternatives = map[Mode][]Mode{MD: {MD10}, MD10: {MD}, MX: {MD}}

// groupMode is the mode that all devices of a group that add or take off INT have.
func (c *compiler) groupMode(i *Intent, members, sources []string) (Mode, bool) {
	lacks := func(mode Mode) (name, text string) {
		for _, name := range members {
			a := c.abilities[name]
			switch {
			case !c.canMark(&a):
				return name, fmt.Sprintf("%s cannot mark packets by %v", name, c.mark)
			case !slices.Contains(a.Modes, mode) && slices.Contains(sources, name):
				return name, fmt.Sprintf("%s has no mode %s", name, mode)
			case !slices.Contains(a.Modes, mode) && c.graph.hasEdge(name):
				return name, fmt.Sprintf("%s cannot take mode %s off", name, mode)
			}
		}
		return "", ""
	}
	first, text := lacks(i.mode())
	if first == "" {
		return i.mode(), true
	}
	if i.Fallback == Approximate {
		for _, mode := range alternatives[i.mode()] {
			if name, _ := lacks(mode); name == "" && (mode != MD10 || c.mark.Mask != 0) {
				c.say(i, first, "mode", true, "%s: %s in place of it", text, mode)
				return mode, true
			}
		}
	}
	c.say(i, first, "mode", false, "%s", text)
	return "", false
}

// groupInstructions is what sources ask for.
func (c *compiler) groupInstructions(i *Intent, members []string) (bitmap uint16, ok bool) {
	bitmap = i.bitmap()
	anyone := uint16(0)
	for _, name := range members {
		anyone |= c.abilities[name].Instructions
	}
	for _, name := range members {
		a := c.abilities[name]
		lacks := bitmap &^ a.Instructions
		switch {
		case lacks == 0 || len(i.States) == 0:
		case i.Fallback != Approximate:
			c.say(i, name, "states", false, "%s cannot report %s", name, node.InstructionText(lacks))
			return 0, false
		default:
			c.say(i, name, "states", true, "%s cannot report %s: it says \"not available\"", name, node.InstructionText(lacks))
		}
	}
	return bitmap & anyone, bitmap&anyone != 0
}

// enter gives a device the entries of an intent, if it can do that.
func (c *compiler) enter(i *Intent, name string, mode Mode, bitmap uint16) {
	a, s := c.abilities[name], c.states[name]
	list, ok := c.slices(i, name, len(s.Entries))
	if !ok {
		return
	}
	e := Entry{Intent: i.Name, Mode: mode, Instructions: bitmap, Sample: max(i.Sample, 1)}
	if mode == MD || mode == MD10 {
		e.Hops = i.Hops
		if e.Hops == 0 {
			e.Hops = DefaultHops
		}
	}
	if e.Sample > 1 && !a.Sampling {
		if i.Fallback != Approximate {
			c.say(i, name, "sample", false, "%s cannot sample", name)
			return
		}
		c.say(i, name, "sample", true, "%s cannot sample: it takes all packets", name)
		e.Sample = 1
	}
	for _, slice := range list {
		e.Slice = slice
		s.Entries = append(s.Entries, e)
	}
	c.states[name] = s
	c.devices[i.Name] = append(c.devices[i.Name], name)
}

// slices are those of the entries that a device needs for an intent; used is how many it has already.
func (c *compiler) slices(i *Intent, name string, used int) ([]Slice, bool) {
	a := c.abilities[name]
	if a.Expressions {
		if a.MaxEntries > 0 && used+1 > a.MaxEntries {
			c.say(i, name, "slice", false, "%s has room for %d entries, and those of intents before it take %d", name, a.MaxEntries, used)
			return nil, false
		}
		return []Slice{i.Slice}, true
	}
	slice := i.Slice
	if slice.Expr != "" {
		if i.Fallback != Approximate {
			c.say(i, name, "slice.expr", false, "%s has no expressions", name)
			return nil, false
		}
		c.say(i, name, "slice.expr", true, "%s has no expressions: it takes all TCP and UDP", name)
		slice = Slice{}
	}
	slice, ok := c.fields(i, name, slice)
	if !ok {
		return nil, false
	}
	list, ok := slice.expand(a.Ranges)
	if ok && (a.MaxEntries == 0 || used+len(list) <= a.MaxEntries) {
		return list, true
	}
	if wider := slice.wider(); i.Fallback == Approximate && (a.MaxEntries == 0 || used+1 <= a.MaxEntries) {
		c.say(i, name, "slice", true, "%s has no room for %d entries: it takes %v", name, len(list), &wider)
		return []Slice{wider}, true
	}
	if !ok {
		c.say(i, name, "slice", false, "it becomes more than %d entries at %s", maxExpanded, name)
		return nil, false
	}
	c.say(i, name, "slice", false, "%s has room for %d entries, those of intents before it take %d, and this one needs %d", name, a.MaxEntries, used, len(list))
	return nil, false
}

// fields is a slice without what a device cannot match, if the intent allows that.
func (c *compiler) fields(i *Intent, name string, slice Slice) (Slice, bool) {
	isIPv6 := func(text string) bool { return strings.Contains(text, ":") }
	for _, field := range c.abilities[name].Lacks {
		used, without := false, slice
		switch field {
		case "src":
			used, without.Src = len(slice.Src) > 0, nil
		case "dst":
			used, without.Dst = len(slice.Dst) > 0, nil
		case "proto":
			used, without.Proto = slice.Proto != "", ""
		case "sport":
			used, without.Sport = len(slice.Sport) > 0, nil
		case "dport":
			used, without.Dport = len(slice.Dport) > 0, nil
		case "dscp":
			used, without.DSCP = slice.DSCP != nil, nil
		case "ipv6":
			without.Src, without.Dst = slices.DeleteFunc(slices.Clone(slice.Src), isIPv6), slices.DeleteFunc(slices.Clone(slice.Dst), isIPv6)
			used = len(without.Src) < len(slice.Src) || len(without.Dst) < len(slice.Dst)
			if len(without.Src) == 0 && len(slice.Src) > 0 || len(without.Dst) == 0 && len(slice.Dst) > 0 {
				c.say(i, name, "slice", false, "%s cannot match IPv6", name)
				return slice, false
			}
		}
		switch {
		case !used:
			continue
		case i.Fallback != Approximate && field == "ipv6":
			c.say(i, name, "slice", false, "%s cannot match IPv6", name)
			return slice, false
		case i.Fallback != Approximate:
			c.say(i, name, "slice."+field, false, "%s cannot match it", name)
			return slice, false
		case field == "ipv6":
			c.say(i, name, "slice", true, "%s cannot match IPv6: it takes IPv4 alone", name)
		default:
			c.say(i, name, "slice."+field, true, "%s cannot match it: it takes packets with any", name)
		}
		slice = without
	}
	return slice, true
}

// carries reports whether packets get something that others must take off.
func (e *Entry) carries() bool { return e.Mode != XD && e.Mode != Backpack }

// withoutCarrying is a State whose packets stay as they are.
func (s State) withoutCarrying() State {
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.carries() })
	return s
}

// withoutEntries is a State that takes INT off, and gives none.
func (s State) withoutEntries() State {
	s.Entries = nil
	return s
}

// gives reports whether packets get INT.
func (s *State) gives() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.carries() })
}
