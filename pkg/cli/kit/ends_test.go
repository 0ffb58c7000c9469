// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestSplitArgs: what are ends, and what is an expression. No domain is attached: no name is a node's.
func TestSplitArgs(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	k := New(nil, nil, nil)
	k.Domain = "rdrnone"
	for text, want := range map[string]string{
		"10.0.0.1:4000-10.0.3.2:5201":         "10.0.0.1 4000, 10.0.3.2 5201 |",
		"10.0.0.1:4000 > 10.0.3.2:5201":       "10.0.0.1 4000, 10.0.3.2 5201, one way |",
		"10.0.0.1:4000>10.0.3.2:5201 and tcp": "10.0.0.1 4000, 10.0.3.2 5201, one way | tcp",
		"10.0.0.1 > 10.0.3.2 icmp echo id 7":  "10.0.0.1 , 10.0.3.2 , one way | icmp echo id 7",
		"[2001:db8::1]:4000-[2001:db8::2]:80": "2001:db8::1 4000, 2001:db8::2 80 |",
		"2001:db8::1-2001:db8::2":             "2001:db8::1 , 2001:db8::2 |",
		"2001:db8::1 10.0.0.0/8":              "2001:db8::1 , 10.0.0.0/8 |",
		"h1-h2":                               "h1 , h2 |",
		"h1-10.9.0.2:5201":                    "h1 , 10.9.0.2 5201 |",
		"web-1:80-h2":                         "web-1 80, h2 |",
		"h1":                                  "h1 |",
		"h1 h2":                               "h1 , h2 |",
		"h1:80 h2 tcp or udp":                 "h1 80, h2 | tcp or udp",
		"h1 tcp port 80":                      "h1 | tcp port 80",
		"h1 icmpv6":                           "h1 | icmpv6",
		"h1 icmpv6 echo id 7":                 "h1 | icmpv6 echo id 7",
		"h1 && not host 10.0.0.1":             "h1 | not host 10.0.0.1",
		"h1 or h2":                            "| h1 or h2",
		"host":                                "| host",
		"host h2":                             "| host h2",
		"h2 host":                             "h2 , host |",
		"tcp port 80":                         "| tcp port 80",
		"port 80-90":                          "| port 80-90",
		"tcp[0:2] - 1 > 5":                    "| tcp[0:2] - 1 > 5",
		"len>500":                             "| len>500",
		"5 < ip[8]":                           "| 5 < ip[8]",
		"(tcp or udp) and port 80":            "| (tcp or udp) and port 80",
		"-h2":                                 "| -h2",
		"[h1]:80-h2":                          "| [h1]:80-h2",
	} {
		f, rest := k.splitArgs(strings.Fields(text))
		var ends []string
		for _, e := range f.ends {
			ends = append(ends, e.host+" "+e.port)
		}
		if f.oneWay {
			ends = append(ends, "one way")
		}
		got := strings.TrimSpace(fmt.Sprintf("%s | %s", strings.Join(ends, ", "), strings.Join(rest, " ")))
		if got = strings.ReplaceAll(got, "  |", " |"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	// A word of the language that stands alone, or alone behind an END, and is a node is the node.
	k.recorded = &answer.Recorded{Recording: &recording.Recording{Last: recording.State{Domain: &domain.Domain{Nodes: []domain.Node{{ID: 1, Name: "net"}, {ID: 2, Name: "h1"}, {ID: 3, Name: "tcp"}}}}}}
	for text, want := range map[string]int{"net": 1, "tcp": 1, "src": 0, "net 10.0.0.0/8": 0, "tcp port 80": 0, "h1 net": 2, "h1 tcp": 2, "h1 and tcp": 1, "h1 udp": 1, "h1 net 10.0.0.0/8": 1} {
		if f, _ := k.splitArgs(strings.Fields(text)); len(f.ends) != want {
			t.Errorf("%q: ends %v, want %d of them", text, f.ends, want)
		}
	}
	for text, want := range map[string]string{
		"tcp": "tcp", "89": "proto 89", "icmpv6": "icmp6", "": "",
		"icmp echo id 7":    "icmp[0] = 8 and icmp[4:2] = 7",
		"icmpv6 reply id 9": "icmp6 and ip6[40] = 129 and ip6[44:2] = 9",
	} {
		if got := flowTail(strings.Fields(text)); got != want {
			t.Errorf("behind ends %q: %q, want %q", text, got, want)
		}
	}
}

// A number behind an END is meant for a port, and no protocol: that is how tables print flows alone.
func TestNumberBehindEnd(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	k := New(nil, nil, nil)
	k.Domain = "rdrnone"
	for text, want := range map[string]string{
		"10.0.0.1 80":          "use 10.0.0.1:80, or 10.0.0.1 port 80,",
		"10.0.0.1 443":         "use 10.0.0.1:443, or 10.0.0.1 port 443,",
		"10.0.0.1 10.0.0.2 80": "use 10.0.0.1 10.0.0.2:80, or 10.0.0.1 10.0.0.2 port 80,",
		"2001:db8::1 80":       "use [2001:db8::1]:80, or 2001:db8::1 port 80,",
		"10.0.0.0/8 80":        "use 10.0.0.0/8 port 80,",
		"10.0.0.1:5 80":        "use [10.0.0.1]:5 port 80,",
	} {
		if _, _, err := k.positional([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		_, meant, _ := strings.Cut(strings.TrimSuffix(want, ","), "use ")
		for args := range strings.SplitSeq(meant, ", or ") {
			if anyOf, _, err := k.positional([]string{args}); err != nil || len(anyOf) != 2 {
				t.Errorf("%q: %v, %v", args, anyOf, err)
			}
		}
	}
	for _, text := range []string{"10.0.0.1 > 10.0.0.2 89", "10.0.0.1-10.0.0.2 89", "10.0.0.1 - 10.0.0.2 89"} {
		if _, expression, err := k.positional([]string{text}); expression != "proto 89" || err != nil {
			t.Errorf("%q: %q, %v", text, expression, err)
		}
	}
}
