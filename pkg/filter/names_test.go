// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter

import (
	"strings"
	"testing"
)

// TestCompileNumeric: whatever libpcap might look up is refused before libpcap sees it.
func TestCompileNumeric(t *testing.T) {
	for _, text := range []string{
		"host evil.example", "evil", "src evil", "udp and dst evil", "net loopback", "gateway evil", "port http", "tcp port 80 or https",
		"portrange 1-http", "portrange ftp-http", "ip proto \\tcp", "proto evil", "\\evil", "host \\evil.example", "host 1.2.3.4.5", "host 10.0.0.1evil",
		"host 1-2", "10-5", "len-5 > 3", "host 5--3", "host -evil", "host 10.", "(evil)", "not(evil)", "!evil", "udp&&evil", "udp||evil", "host\nevil",
		"host 0x1z", "HOST 10.0.0.1", "host tcp-syn-evil", "host 10:evil", "host fe80::1%eth0", "portrange 1-2 or 3-4", "udp and \u00e9vil", "ether host aa:bb:cc:dd:ee:ff",
		"host 099", "host evil_", "host evil.example.", "icmp[evil]", "tcp[2:evil]", "host 10.0.0.1 or (udp and host e)", "udp \x00 evil",
	} {
		if e, err := CompileNumeric(text); err == nil || !strings.Contains(err.Error(), "names are not looked up") {
			t.Errorf("%q: %v, %v", text, e, err)
		}
	}
	for _, text := range []string{
		"udp port 9999", "host 10.0.0.1", "src net 10.0.0.0/8 and not tcp port 22", "net 10 or net 10.1", "net 10.0.0.0 mask 255.0.0.0", "portrange 1000-2000",
		"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and host 10.0.0.1", "tcp[tcpflags]&tcp-syn!=0", "ip6[6] = 44 and ip6[42:2] & 0xfff8 != 0", "-ip[8]+300>10", "len -5 > 3",
		"ip[2:2]-ip[0]>5", "host 2001:db8::1 and not port 22", "icmp6 or net 2001:db8::/32", "host ::1 or ::ffff:10.0.0.1", "port 53 or 54", "ip multicast",
		"icmp[icmptype]=icmp-echo", "greater 1000", "sctp dst port 5", "host 012", "tcp dst portrange 1-5 or udp",
	} {
		if _, err := CompileNumeric(text); err != nil {
			t.Error(err)
		}
	}
	if _, err := CompileNumeric("ether host 02:00:00:00:00:01"); err == nil || !strings.Contains(err.Error(), "instead of the link layer") {
		t.Error(err)
	}
}

// TestCompileNumericBounds: what would keep libpcap busy is refused before libpcap sees it, with the reason.
func TestCompileNumericBounds(t *testing.T) {
	ports := func(n int, join string) string { return "port 1" + strings.Repeat(join+"2", n-1) }
	for text, want := range map[string]string{
		ports(maxTests+1, " or "):                                         "joins 65 tests",
		ports(maxTests+1, "||"):                                           "joins 65 tests",
		ports(maxTests+1, "&&!"):                                          "joins 65 tests",
		"port 1" + strings.Repeat("\tand\n(2)", maxTests):                 "joins 65 tests",
		strings.Repeat("(", maxDepth+1) + "udp":                           "more than 32 deep",
		strings.Repeat("ip[", maxDepth+1):                                 "more than 32 deep",
		"udp" + strings.Repeat(" ", maxText-2):                            "it has 1025 bytes",
		"udp and src host 10.0.0.1" + strings.Repeat("\u00a0", maxText/2): "it has 1049 bytes",
	} {
		if e, err := CompileNumeric(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", text, e, err, want)
		}
	}
	for _, text := range []string{
		ports(maxTests, " or "), strings.Repeat("(", maxDepth) + "udp" + strings.Repeat(")", maxDepth),
		"udp" + strings.Repeat(" ", maxText-3), strings.Repeat("(udp) or ", maxTests-1) + "tcp",
	} {
		if _, err := CompileNumeric(text); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestWords: libpcap takes none of the words for a name.
func TestWords(t *testing.T) {
	for word := range words {
		if _, err := Compile("host " + word); err != nil && !strings.Contains(err.Error(), "syntax error") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestWithAddresses: names stand for addresses where a host can be named, and nowhere else.
func TestWithAddresses(t *testing.T) {
	of := func(name string) ([]string, error) {
		return map[string][]string{"h1": {"10.0.1.1"}, "h2": {"10.0.2.2", "2001:db8::2"}, "host": {"10.0.9.1"}, "tcp": {"10.0.9.2"}, "web-1": {"10.0.3.1"}}[name], nil
	}
	for text, want := range map[string]string{
		"host h2":                                 "host (10.0.2.2 or 2001:db8::2)",
		"src h2 and not dst host h1":              "src (10.0.2.2 or 2001:db8::2) and not dst host 10.0.1.1",
		"host h1 or h2":                           "host 10.0.1.1 or (10.0.2.2 or 2001:db8::2)",
		"host host":                               "host 10.0.9.1",
		"tcp and host tcp":                        "tcp and host 10.0.9.2",
		"src host (h1 or h2) and port http":       "src host (10.0.1.1 or (10.0.2.2 or 2001:db8::2)) and port http",
		"host web-1 and tcp[tcpflags]&tcp-syn!=0": "host 10.0.3.1 and tcp[tcpflags]&tcp-syn!=0",
		"host nobody or portrange 1-2":            "host nobody or portrange 1-2",
		"port h1 or proto h1 or net h1":           "port h1 or proto h1 or net h1",
		"  host\th1  ":                            "  host\t10.0.1.1  ",
	} {
		got, err := WithAddresses(text, of)
		if got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if _, err := CompileNumeric(got); err != nil && !strings.Contains(err.Error(), "names are not looked up") {
			t.Errorf("%q: %v", got, err)
		}
	}
}
