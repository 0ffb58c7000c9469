// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
)

// EndsUse is what commands that select packets take as arguments.
const EndsUse = "[END [END] | FLOW] [EXPRESSION]"

// end is what an argument names: a host, with or without a port.
type end struct {
	host string // address, prefix or node
	port string
}

// flow is what arguments name: packets of one end, or between two.
type flow struct {
	ends   []end
	oneWay bool // from the first end to the second one alone
	joined bool // the ends came as one, as tables print flows
}

// positional is what arguments ask for: one of these specs must match, and the expression.
func (k *Kit) positional(args []string) (anyOf []filter.Spec, expression string, err error) {
	f, rest := k.splitArgs(strings.Fields(strings.Join(args, " ")))
	if len(f.ends) == 0 {
		return nil, strings.Join(args, " "), nil
	}
	if err := f.refuseNumber(rest); err != nil {
		return nil, "", err
	}
	anyOf, err = k.specs(f)
	return anyOf, flowTail(rest), err
}

// splitArgs takes the ends at the beginning off. What begins with a word of the language of expressions is one. Where a
// node has such a name, the word alone, or alone behind an END, means the node: a domain with a bridge has one called host.
func (k *Kit) splitArgs(words []string) (f flow, rest []string) {
	if len(words) == 0 || filter.IsWord(words[0]) && !(len(words) == 1 && k.isNode(words[0])) {
		return f, words
	}
	first, ok := splitEnd(words[0])
	if !ok || !k.isHost(first.host) {
		if f, cut := k.splitFlow(words[0]); cut {
			return f, afterEnds(words[1:])
		}
	}
	if !ok || len(words) > 1 && (words[1] == "or" || words[1] == "||") {
		return f, words
	}
	rest = words[1:]
	if len(rest) > 1 && (rest[0] == ">" || rest[0] == "-") {
		if second, ok := splitEnd(rest[1]); ok {
			return flow{[]end{first, second}, rest[0] == ">", true}, afterEnds(rest[2:])
		}
	}
	if len(rest) > 0 && (!filter.IsWord(rest[0]) && rest[0] != "icmpv6" || len(rest) == 1 && (rest[0] == "host" || k.isNode(rest[0]))) {
		if second, ok := splitEnd(rest[0]); ok {
			return flow{ends: []end{first, second}}, afterEnds(rest[1:])
		}
	}
	return flow{ends: []end{first}}, afterEnds(rest)
}

// refuseNumber refuses a number behind ends, which is meant for a port: libpcap takes it for an address, or for a protocol,
// as tables print those that have no name behind a flow.
func (f flow) refuseNumber(rest []string) error {
	if f.joined || len(rest) != 1 {
		return nil
	}
	if _, err := strconv.ParseUint(rest[0], 10, 64); err != nil {
		return nil
	}
	names := make([]string, len(f.ends))
	for i, e := range f.ends {
		names[i] = e.host
		if e.port != "" {
			names[i] = "[" + e.host + "]:" + e.port
		}
	}
	last := f.ends[len(f.ends)-1]
	meant := strings.Join(names, " ") + " port " + rest[0]
	if last.port == "" && !strings.Contains(last.host, "/") {
		host := last.host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		names[len(names)-1] = host + ":" + rest[0]
		meant = strings.Join(names, " ") + ", or " + meant
	}
	return fault.Usage.Errorf("%q behind an END is a bare number: for the port use %s, for the protocol --proto %s", rest[0], meant, rest[0])
}

// afterEnds leaves out the word that joins ends and an expression.
func afterEnds(rest []string) []string {
	if len(rest) > 0 && (rest[0] == "and" || rest[0] == "&&") {
		return rest[1:]
	}
	return rest
}

// splitFlow reads END-END, or END>END. Names of nodes can have a "-": any of them may be the one between.
func (k *Kit) splitFlow(text string) (found flow, ok bool) {
	for i := range text {
		if text[i] != '-' && text[i] != '>' {
			continue
		}
		src, srcOK := splitEnd(text[:i])
		dst, dstOK := splitEnd(text[i+1:])
		if !srcOK || !dstOK || filter.IsWord(src.host) && !k.isNode(src.host) {
			continue
		}
		one := flow{[]end{src, dst}, text[i] == '>', true}
		if known := k.isHost(src.host) && k.isHost(dst.host); known || !ok {
			found, ok = one, true
			if known {
				return found, true
			}
		}
	}
	return found, ok
}

var hostRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,62}$`) // of nodes

// splitEnd reads HOST, HOST:PORT or [ADDRESS]:PORT.
func splitEnd(text string) (e end, ok bool) {
	if isHost(text) {
		return end{host: text}, true
	}
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		if _, err := strconv.ParseUint(text[i+1:], 10, 16); err != nil {
			return end{}, false
		}
		text, e.port = text[:i], text[i+1:]
	}
	if inner, cut := strings.CutPrefix(text, "["); cut {
		e.host = strings.TrimSuffix(inner, "]")
		return e, isHost(e.host) && len(e.host) < len(inner)
	}
	_, err := strconv.ParseUint(text, 0, 64)
	e.host = text
	return e, hostRE.MatchString(text) && (err != nil || e.port != "")
}

// isHost reports whether it is an address or a prefix.
func isHost(s string) bool {
	_, notAddr := netip.ParseAddr(s)
	_, notPrefix := netip.ParsePrefix(s)
	return notAddr == nil || notPrefix == nil
}

// isHost reports whether it is an address or a prefix, or a node's name.
func (k *Kit) isHost(s string) bool { return isHost(s) || k.isNode(s) }

// isNode reports whether a node has that name.
func (k *Kit) isNode(name string) bool {
	if isHost(name) {
		return false
	}
	list, err := k.addressesOf([]string{name})
	if _, none := errors.AsType[*answer.NoAddress](err); none {
		return true
	}
	return err == nil && (len(list) != 1 || list[0] != name)
}

// specs are what matches packets of ends, in both directions, or in one.
func (k *Kit) specs(f flow) ([]filter.Spec, error) {
	hosts := make([]string, len(f.ends))
	for i, e := range f.ends {
		list, err := k.addressesOf([]string{e.host})
		if err == nil && len(list) == 1 && list[0] == e.host && !isHost(e.host) {
			return nil, k.noNames(e.host)
		}
		if _, none := errors.AsType[*answer.NoAddress](err); none && len(f.ends) == 1 && e.port == "" {
			return []filter.Spec{{Node: e.host}}, nil
		}
		if err != nil {
			return nil, refusedNode("END", err)
		}
		hosts[i] = strings.Join(list, ",")
	}
	a := f.ends[0]
	if len(f.ends) == 1 {
		specs := []filter.Spec{{Src: hosts[0], Sport: a.port}, {Dst: hosts[0], Dport: a.port}}
		if a.port == "" && !isHost(a.host) {
			specs = append(specs, filter.Spec{Node: a.host}) // what a router passes on has other ends
		}
		return specs, nil
	}
	b := f.ends[1]
	specs := []filter.Spec{{Src: hosts[0], Sport: a.port, Dst: hosts[1], Dport: b.port}}
	if !f.oneWay {
		specs = append(specs, filter.Spec{Src: hosts[1], Sport: b.port, Dst: hosts[0], Dport: a.port})
	}
	return specs, nil
}

// noNames is the error about a name where no names are known.
func (k *Kit) noNames(name string) error {
	if k.recorded != nil {
		return fault.Usage.Errorf("END %q: the recording has no addresses of nodes: give an address, or --node", name)
	}
	if _, err := answer.OwnersOf(k.Domain).Addresses(name); err != nil {
		return err
	}
	return fault.Usage.Errorf("END %q: no domain is attached that knows its address: give an address, or --node", name)
}

// flowTail is the expression behind ends, which may be as tables print it: "udp", "icmp echo id 7".
func flowTail(rest []string) string {
	if len(rest) == 0 {
		return ""
	}
	types := map[string]string{"icmp echo": "icmp[0] = 8", "icmp reply": "icmp[0] = 0", "icmpv6 echo": "icmp6 and ip6[40] = 128", "icmpv6 reply": "icmp6 and ip6[40] = 129"}
	if len(rest) == 4 && rest[2] == "id" {
		if text := types[rest[0]+" "+rest[1]]; text != "" {
			number := map[string]string{"icmp": "icmp[4:2]", "icmpv6": "ip6[44:2]"}[rest[0]]
			return text + " and " + number + " = " + rest[3]
		}
	}
	if len(rest) == 1 && rest[0] == "icmpv6" {
		return "icmp6"
	}
	if _, err := strconv.ParseUint(rest[0], 10, 8); err == nil && len(rest) == 1 {
		return "proto " + rest[0]
	}
	return strings.Join(rest, " ")
}
