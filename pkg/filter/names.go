// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Bounds of an expression that somebody else wrote. libpcap's optimizer takes time with about the third power of the
// tests: 64 ranges of ports took up to 1 s on a busy machine, 128 of them 3 s.
const (
	maxText  = 1024 // bytes
	maxTests = 64   // that "and" and "or" join
	maxDepth = 32   // of parentheses and brackets
)

// CompileNumeric is Compile for the text of somebody else, who may not make this process ask for names: libpcap
// looks them up in C, where no deadline reaches, and under a lock that all expressions take. So a name is refused,
// also that of a port or a protocol: the machine decides where it looks these up. What would hold that lock for long
// is refused, too, before libpcap sees it.
func CompileNumeric(text string) (*Expr, error) {
	if err := CheckBounds(text); err != nil {
		return nil, err
	}
	if name := nameIn(text); name != "" {
		return nil, fmt.Errorf("filter expression %s: %s is a name, or no word of the language: names are not looked up here, give addresses and numbers", quote(text), quote(name))
	}
	return Compile(text)
}

// words are those of the language of libpcap 1.9 and later that can be about IP packets, and those about what is
// below IP that libpcap refuses with a better message. What is not here may be a name.
var words = wordsOf(`dst src host net mask port portrange proto protochain and or not
	ip ip6 tcp udp sctp icmp icmp6 igmp igrp pim vrrp carp ah esp
	less greater byte broadcast multicast len length inbound outbound
	link ether arp rarp vlan mpls pppoed pppoes
	tcpflags tcp-fin tcp-syn tcp-rst tcp-push tcp-ack tcp-urg tcp-ece tcp-cwr
	icmptype icmpcode icmp-echoreply icmp-unreach icmp-sourcequench icmp-redirect icmp-echo icmp-routeradvert
	icmp-routersolicit icmp-timxceed icmp-paramprob icmp-tstamp icmp-tstampreply icmp-ireq icmp-ireqreply
	icmp-maskreq icmp-maskreply
	icmp6type icmp6code icmp6-destinationunreach icmp6-packettoobig icmp6-timeexceeded icmp6-parameterproblem
	icmp6-echo icmp6-echoreply icmp6-multicastlistenerquery icmp6-multicastlistenerreportv1
	icmp6-multicastlistenerdone icmp6-routersolicit icmp6-routeradvert icmp6-neighborsolicit
	icmp6-neighboradvert icmp6-redirect icmp6-routerrenum`)

func wordsOf(text string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

var (
	// between is what cannot be in a word of libpcap. A backslash makes a name of what follows it.
	between = regexp.MustCompile(`[ \t\r\n()\[\]+*/%!<>&|^=]+`)
	number  = regexp.MustCompile(`^(0[xX][0-9A-Fa-f]+|0[0-7]*|[1-9][0-9]*)$`)
	dotted  = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)
	span    = regexp.MustCompile(`^[0-9]+-[0-9]+$`)
)

// joint is what joins two tests.
var joint = regexp.MustCompile(`&&|\|\||\b(and|or)\b`)

// CheckBounds refuses what CompileNumeric would refuse for its size alone. It is for who has work with the text before.
func CheckBounds(text string) error {
	if err := tooMuch(text); err != nil {
		return fmt.Errorf("filter expression %s: %w", quote(text), err)
	}
	return nil
}

// tooMuch says what of an expression is beyond the bounds; nil: nothing.
func tooMuch(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("it has %d bytes, %d are taken at most", len(text), maxText)
	}
	if tests := len(joint.FindAllStringIndex(text, -1)) + 1; tests > maxTests {
		return fmt.Errorf("it joins %d tests by and, or: %d are taken at most, use networks and ranges", tests, maxTests)
	}
	depth := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if depth > maxDepth {
			return fmt.Errorf("its parentheses and brackets are nested more than %d deep", maxDepth)
		}
	}
	return nil
}

// nameIn is the first word that libpcap may look up; "": none.
func nameIn(text string) string {
	before := ""
	for _, word := range between.Split(text, -1) {
		if span.MatchString(word) && before == "portrange" {
			continue // anywhere else 1-2 is a host's name
		}
		before = word
		if name := nameOfWord(word); name != "" {
			return name
		}
	}
	return ""
}

// nameOfWord is the part of what stands between two separators that may be a name. A hyphen is part of a name, but
// not its first or last character; a colon is part of nothing but an address.
func nameOfWord(word string) string {
	word = strings.Trim(word, "-")
	if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
		return ""
	}
	for part := range strings.SplitSeq(word, ":") {
		part = strings.Trim(part, "-")
		if part != "" && !words[part] && !number.MatchString(part) && !dotted.MatchString(part) {
			return part
		}
	}
	return ""
}

// IsWord reports whether it is a word of the language of expressions.
func IsWord(s string) bool { return words[strings.ToLower(s)] }

// WithAddresses puts addresses in the place of names: "src h2" becomes "src (10.0.0.2 or 2001:db8::2)". What of knows
// no addresses for (nil) stays as it is: libpcap may know it. Behind "host" every word is a name.
func WithAddresses(text string, of func(name string) ([]string, error)) (string, error) {
	var b strings.Builder
	before, at := "", 0
	put := func(from, to int) error {
		word := text[from:to]
		if !mayBeHost(word, before) {
			before = word
			b.WriteString(word)
			return nil
		}
		before = ""
		list, err := of(word)
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			b.WriteString(word)
		case len(list) == 1:
			b.WriteString(list[0])
		default:
			b.WriteString("(" + strings.Join(list, " or ") + ")")
		}
		return nil
	}
	for _, gap := range append(between.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		if gap[0] > at {
			if err := put(at, gap[0]); err != nil {
				return "", err
			}
		}
		b.WriteString(text[gap[0]:gap[1]])
		at = gap[1]
	}
	return b.String(), nil
}

// mayBeHost reports whether a word can be the name of a host where it stands.
func mayBeHost(word, before string) bool {
	switch before {
	case "host":
		return !strings.HasPrefix(word, `\`)
	case "port", "portrange", "proto", "protochain", "net", "mask":
		return false
	}
	return nameOfWord(word) == word
}
