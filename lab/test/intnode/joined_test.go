// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// collected is a packet in "radar packets -o json", as far as these tests look at it.
type collected struct {
	Sport, Dport int
	Hops         []struct {
		Node   string
		NodeNs *int64 `json:"node_ns"`
	}
}

// collect starts radar's own collector in r2, which calls nodes by the names in names.
func (w *world) collect(names string, more ...string) {
	w.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=" + w.Path("r2"), w.bin, "collect", "--all", "--join", "10s", "--node", names}, more...)...)
	cmd.Env = w.command().Env
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	nstest.Cleanup(w.TB, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	nstest.WaitFor(w.TB, "the collector", func() bool {
		listening, _ := w.Try("r2", "ss", "-lun")
		return strings.Contains(listening, ":32766")
	})
}

// ways are how many packets to or from each port took which way, by what was collected.
func (w *world) ways() (map[int]map[string]int, error) {
	out, err := w.command("packets", "--last", "0", "-o", "json").Output()
	if err != nil {
		return nil, err
	}
	ways := make(map[int]map[string]int)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p collected
		if err := d.Decode(&p); err == io.EOF {
			return ways, nil
		} else if err != nil {
			return nil, err
		}
		var nodes []string
		for _, h := range p.Hops {
			nodes = append(nodes, h.Node)
		}
		port := p.Dport
		if p.Sport > 5000 && p.Sport < 5100 {
			port = p.Sport
		}
		count(ways, port, strings.Join(nodes, " "))
	}
}

func count(ways map[int]map[string]int, port int, way string) {
	if ways[port] == nil {
		ways[port] = make(map[string]int)
	}
	ways[port][way]++
}

func packetsOf(ways map[int]map[string]int) (n int) {
	for _, of := range ways {
		for _, k := range of {
			n += k
		}
	}
	return n
}

// burst sends packets of UDP that do not differ, and waits for none of them. Those of a socket that is not connected have
// no number in the IP header.
func (w *world) burst(address string, port, n int, connected bool) {
	w.Helper()
	w.in("h2", func() error {
		in, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
		if err == nil {
			w.Cleanup(func() { in.Close() })
		}
		return err
	})
	w.in("h1", func() error {
		to := &net.UDPAddr{IP: net.ParseIP(address), Port: port}
		if connected {
			out, err := net.DialUDP("udp", nil, to)
			if err != nil {
				return err
			}
			defer out.Close()
			for range n {
				if _, err := out.Write([]byte("what does not differ")); err != nil {
					return err
				}
			}
			return nil
		}
		out, err := net.ListenUDP("udp", nil)
		if err != nil {
			return err
		}
		defer out.Close()
		for range n {
			if _, err := out.WriteToUDP([]byte("what does not differ"), to); err != nil {
				return err
			}
		}
		return nil
	})
}

// talk sends n times by TCP, of which each has an answer.
func (w *world) talk(address string, port, n int) {
	w.Helper()
	var l net.Listener
	w.in("h2", func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	w.in("h1", func() error {
		c, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		if err != nil {
			return err
		}
		defer c.Close()
		b := bytes.Repeat([]byte{7}, 300)
		for range n {
			if _, err := c.Write(b); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestJoined: what all nodes report of a packet by themselves is one record of the whole way in its order, of as many
// packets as a capture sees: over veths that leave checksums to the receiver, or to a node on the way, of IPv4 and
// IPv6, UDP and TCP. Ends are routers or the hosts themselves.
func TestJoined(t *testing.T) {
	const n = 60
	for _, c := range []struct{ mode, ends string }{{"mx", "routers"}, {"xd", "routers"}, {"mx", "hosts"}, {"xd", "hosts"}} {
		t.Run(c.mode+" "+c.ends, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Run("r2", "ethtool", "-K", "e1", "tx", "off") // works out the checksums that were left to it
			nodes := []string{"r1", "r2", "r3"}
			names := "1=r1,2=r3,3=r2"
			if c.ends == "routers" {
				w.nodes("--mode", c.mode)
			} else {
				w.radar("int", "attach", "--role", "source,sink", "--sink-elsewhere", "--mode", c.mode, "--via", w.Spec("r2"), w.Spec("h2"), w.Spec("h1"))
				w.radar("int", "attach", "--role", "transit", w.Spec("r1"), w.Spec("r2"), w.Spec("r3"))
				nodes, names = []string{"h1", "r1", "r2", "r3", "h2"}, "1=h2,2=h1,3=r1,4=r2,5=r3"
			}
			w.collect(names)
			there, back := strings.Join(nodes, " "), ""
			for _, name := range nodes {
				back = strings.TrimSpace(name + " " + back)
			}
			if c.mode == "xd" && c.ends == "hosts" { // a node tells of what it sends: who gets the packet does not
				there, back = strings.Join(nodes[:4], " "), strings.TrimSuffix(back, " h1")
			}
			went, came := w.capture("r1", "e1"), w.capture("r1", "e1")
			w.burst("10.0.3.2", 5001, n, true)
			w.burst("10.0.3.2", 5002, n, false)
			w.burst("fd00:3::2", 5003, n, true)
			w.talk("10.0.3.2", 5004, n/6)
			w.talk("fd00:3::2", 5005, n/6)
			var got map[int]map[string]int
			want := make(map[int]map[string]int)
			before := 0 // captured
			nstest.WaitFor(t, "all packets to be collected", func() (same bool) {
				for _, p := range went.packets(false) {
					count(want, int(p.dport), there)
				}
				for _, p := range came.packets(true) {
					count(want, int(p.sport), back)
				}
				var err error
				got, err = w.ways()
				still := packetsOf(want) == before // else those that came since may be collected, and not looked at yet
				before = packetsOf(want)
				return err == nil && fmt.Sprint(got) == fmt.Sprint(want) || still && packetsOf(got) > before
			})
			for port, ways := range want {
				if fmt.Sprint(got[port]) != fmt.Sprint(ways) {
					t.Errorf("port %d: collected %v, captured %v", port, got[port], ways)
				}
			}
		})
	}
}
