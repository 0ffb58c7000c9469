// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// noAnswer are networks in which questions arrive, and nothing comes back.
var noAnswer = []network{
	{
		name: "no route back", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("b", "ip route del default") },
		symptom: silent("a", "10.2.0.1"),
		asks: []ask{
			{"loss", []string{`b sent no answer to 10\.1\.0\.1`, `no route to 10\.1\.0\.1, and no default route`}, ""},
			{"loss --src 10.1.0.1 --by flow", []string{`b sent no answer to 10\.1\.0\.1`}, ""},
			{"loss --src 10.9.9.9 --by flow", []string{`no packet matches`}, `sent no answer`},
		},
	},
	{
		name: "no route back over IPv6", nodes: "a r b",
		build: func(w *world) {
			line(w)
			for _, at := range [][2]string{{"a", "fd00:1::1/64"}, {"r", "fd00:1::fe/64"}, {"b", "fd00:2::1/64"}} {
				w.Address(at[0], "eth0", at[1])
			}
			w.Address("r", "eth1", "fd00:2::fe/64")
			w.sh("a", "ip -6 route add default via fd00:1::fe")
		},
		symptom: silent("a", "fd00:2::1"),
		asks:    []ask{{"loss", []string{`b sent no answer to fd00:1::1`, `no route to fd00:1::1`}, ""}},
	},
	{
		name: "route that forbids the answer", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("b", "ip route add blackhole 10.1.0.0/24") },
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`b sent no answer to 10\.1\.0\.1`, `blackhole`}, ""}},
	},
	{
		name: "echo ignored", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("b", "sysctl -qw net.ipv4.icmp_echo_ignore_all=1") },
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`b sent no answer to 10\.1\.0\.1`, `net\.ipv4\.icmp_echo_ignore_all=1`}, ""}},
	},
	{
		name: "all is well", nodes: "a r b",
		build:   line,
		symptom: func(w *world) bool { return w.answers("a", "10.2.0.1") == 3 },
		asks:    []ask{{"loss", []string{`nothing was lost`}, `no answer|another way|not used`}},
	},
	{
		name: "accept queue full", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("b", "sysctl -qw net.ipv4.tcp_syncookies=0")
			w.in("b", func() error { // two connections are its queue, and nobody accepts them
				fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				w.Cleanup(func() { syscall.Close(fd) })
				if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: 80}); err != nil {
					return err
				}
				return syscall.Listen(fd, 1)
			})
			for range 4 {
				w.in("a", func() error {
					if c, err := net.DialTimeout("tcp", "10.2.0.1:80", time.Second); err == nil {
						w.Cleanup(func() { c.Close() })
					}
					return nil
				})
			}
		},
		symptom: func(w *world) bool { return w.connect("a", "10.2.0.1:80", 1) != nil },
		asks: []ask{{"loss", []string{`b sent no answer to 10\.1\.0\.1`, `port 80`, `queue is full`}, ""},
			{"explain", []string{`no connection: b did not answer \d+ SYNs?: the listening socket's queue is full`}, ""}},
	},
	{
		name: "UDP answered from another address", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("b", "ip addr add 10.2.0.9/24 dev eth0")
			server := w.udp("b", "0.0.0.0:53")
			go func() {
				for b := make([]byte, 99); ; {
					_, from, err := server.ReadFrom(b)
					if err != nil {
						return
					}
					server.WriteTo(b[:9], from) // by the first address of its port
				}
			}()
		},
		symptom: func(w *world) bool {
			conn := w.udp("a", "10.1.0.1:0")
			w.send(conn, "10.2.0.9:53", 2, 20)
			conn.SetDeadline(time.Now().Add(2 * time.Second))
			_, from, err := conn.ReadFrom(make([]byte, 99))
			return err == nil && strings.HasPrefix(from.String(), "10.2.0.1:")
		},
		asks: []ask{{"loss", []string{`b sent no answer to 10\.1\.0\.1`, `from 10\.2\.0\.9: it answers from 10\.2\.0\.1`}, ""}},
	},
	{
		name: "translation expired", nodes: "a r b", slow: true,
		build: func(w *world) {
			line(w)
			w.sh("r", `nft 'add table ip n; add chain ip n post { type nat hook postrouting priority 100; }; add rule ip n post oifname eth1 masquerade'`)
			w.sh("r", "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1 net.netfilter.nf_conntrack_udp_timeout_stream=1")
		},
		symptom: func(w *world) bool {
			server, client := w.udp("b", "10.2.0.1:0"), w.udp("a", "10.1.0.1:0")
			w.send(client, server.LocalAddr().String(), 1, 20)
			_, from, err := server.ReadFrom(make([]byte, 99))
			if err != nil {
				w.Fatal(err)
			}
			for strings.Contains(w.sh("r", "cat /proc/thread-self/net/nf_conntrack"), "dport="+from.String()[strings.LastIndex(from.String(), ":")+1:]+" ") {
				time.Sleep(200 * time.Millisecond)
			}
			w.send(server, from.String(), 2, 20)
			client.SetDeadline(time.Now().Add(500 * time.Millisecond))
			_, _, err = client.ReadFrom(make([]byte, 99))
			return err != nil
		},
		asks: []ask{{"loss --after-delivery", []string{`\br\b.*NO_SOCKET`, `r has no translation for it`, `10\.1\.0\.1`}, ""}},
	},
	{
		name: "listens on loopback alone", nodes: "a r b",
		build:   func(w *world) { line(w); w.serve("b", "127.0.0.1:80") },
		symptom: func(w *world) bool { return w.connect("a", "10.2.0.1:80", 1) != nil },
		asks:    []ask{{"loss --after-delivery", []string{`\bb\b`, `nobody listens`, `listens on 127\.0\.0\.1 alone`}, ""}},
	},
	{
		name: "answer by another router", nodes: "c r1 r2 s",
		build:   func(w *world) { twoNetworks(w); w.knows("s", "eth0", "10.1.0.254", "r1", "e1") },
		symptom: silent("c", "10.2.0.2"),
		asks: []ask{
			{"loss", []string{`\br1\b`, `rp_filter`, `r1's way back to 10\.2\.0\.2 is r1/e2`}, ""},
			{"loss", []string{`asymmetric`, `c > r2 > s`, `s > r1`, `3 packets were lost`}, ""},
		},
	},
	{
		name: "answer by another router, which answers no ARP", nodes: "c r1 r2 s",
		build:   twoNetworks,
		symptom: silent("c", "10.2.0.2"),
		asks:    []ask{{"loss", []string{`\bs dropped`, `NEIGH_FAILED`, `r1 answers no ARP of 10\.2\.0\.2 by r1/e1`, `rp_filter`}, ""}},
	},
	{
		name: "errors limited", nodes: "a r b",
		build: line,
		symptom: func(w *world) bool {
			out, _ := w.Try("a", "ping", "-n", "-f", "-c60", "-t1", "10.2.0.1")
			return strings.Contains(out, "0 received") && !strings.Contains(out, "+60 errors")
		},
		asks: []ask{
			{"loss", []string{`IP_INHDR`, `TTL used up`}, `bad header`},
			{"loss", []string{`\br answered not all`, `icmp_ratelimit`}, ""},
		},
	},
	{
		name: "tentative", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.Address("b", "eth0", "fd00::2/64")
			w.sh("a", "sysctl -qw net.ipv6.conf.all.accept_dad=1 net.ipv6.conf.eth0.accept_dad=1 net.ipv6.conf.eth0.dad_transmits=1000")
		},
		symptom: func(w *world) bool {
			w.sh("a", "ip -6 addr flush dev eth0 scope global; ip -6 addr add fd00::1/64 dev eth0")
			return w.answers("a", "fd00::2", "-I", "fd00::1") == 0
		},
		asks: []ask{{"loss", []string{`fd00::1 at a/eth0`, `tentative`}, ""}},
	},
	{
		name: "dadfailed", nodes: "a b s", slow: true,
		build: func(w *world) {
			lan("")(w)
			w.Address("b", "eth0", "fd00::1/64")
			w.Address("b", "eth0", "fd00::2/64")
			w.sh("a", "sysctl -qw net.ipv6.conf.all.accept_dad=1 net.ipv6.conf.eth0.accept_dad=1; ip -6 addr add fd00::1/64 dev eth0")
			for !strings.Contains(w.sh("a", "ip -6 addr"), "dadfailed") {
				time.Sleep(100 * time.Millisecond)
			}
		},
		symptom: silent("a", "fd00::2", "-I", "fd00::1"),
		asks:    []ask{{"loss", []string{`fd00::1 at a/eth0`, `dadfailed`}, ""}},
	},
	{
		name: "no IPv6 default route", nodes: "a r b",
		build:   func(w *world) { line(w); w.Address("a", "eth0", "fd00:1::1/64") },
		symptom: silent("a", "fd00:2::1"),
		asks:    []ask{{"loss", []string{`\ba has no route for IPv6`, `no default route`}, ""}},
	},
}

// twoNetworks: s is in two networks, and answers by its default route, r1, what came by r2. r1 filters by reverse path.
func twoNetworks(w *world) {
	w.wire("c/eth0", "10.0.0.1/24", "r2/e0", "10.0.0.254/24")
	w.wire("r1/e1", "10.1.0.254/24", "s/eth0", "10.1.0.2/24")
	w.wire("r2/e1", "10.2.0.254/24", "s/eth1", "10.2.0.2/24")
	w.wire("r1/e2", "10.12.0.1/24", "r2/e2", "10.12.0.2/24")
	w.forwards("r1", "r2")
	w.sh("c", "ip route add default via 10.0.0.254")
	w.sh("s", "ip route add default via 10.1.0.254")
	w.sh("r1", "ip route add 10.0.0.0/24 via 10.12.0.2; ip route add 10.2.0.0/24 via 10.12.0.2; sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.e1.rp_filter=1")
	w.sh("r2", "ip route add 10.1.0.0/24 via 10.12.0.1")
}

// TestNoAnswer: who got a question and did not answer is named, with why.
func TestNoAnswer(t *testing.T) {
	for i := range noAnswer {
		t.Run(noAnswer[i].name, noAnswer[i].run)
	}
}
