// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// TestLab: the lab as it is carries TCP of the hosts' own kernels, over IPv4 and IPv6. What a host
// gets is what the other has sent, and a collector in c knows the way of each packet.
func TestLab(t *testing.T) {
	live(t)
	for _, mode := range []string{md, md10, mx, xd} {
		t.Run(mode, func(t *testing.T) {
			n := startLab(t, map[string]string{"MODE": mode})
			n.capture()
			stop := n.collect()
			n.transfer("10.0.2.1:5201")
			n.transfer("[fd00:2::1]:5201")
			stop()
			n.compareWays(n.compareHosts())
		})
	}
}

// transfer sends data by TCP over several connections, so that both ways are taken, and gets it back.
func (n *network) transfer(to string) {
	n.t.Helper()
	var server net.Listener
	err := n.inside("h2", func() (err error) {
		server, err = net.Listen("tcp", to)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	for i := range 8 {
		var conn net.Conn
		if err := n.inside("h1", func() (err error) {
			conn, err = net.DialTimeout("tcp", to, nstest.Patience)
			return err
		}); err != nil {
			n.t.Fatal(err)
		}
		n.echo(conn.(*net.TCPConn), bytes.Repeat([]byte{'p', 'q', byte(i)}, 3000))
	}
}

// echo sends data, and wants it back.
func (n *network) echo(conn *net.TCPConn, data []byte) {
	n.t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(nstest.Patience))
	if _, err := conn.Write(data); err != nil {
		n.t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		n.t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, data) {
		n.t.Errorf("%v: %d bytes sent, %d came back, %v", conn.RemoteAddr(), len(data), len(got), err)
	}
}

// collect runs radar collect in c. stop waits until no more reports come, and ends it.
func (n *network) collect() (stop func()) {
	n.t.Helper()
	radar := radarbin.Path(n.t)
	cmd := n.lab.Command(n.t.Context(), "c", radar, "collect", "--all", "--join", "3s", "--node", "1=s1,2=s2,3=s3,4=s4")
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill() })
	nstest.WaitFor(n.t, "radar collect", func() bool { return strings.Contains(said.String(), "collecting at") })
	return func() {
		n.t.Helper()
		last := ""
		nstest.WaitFor(n.t, "the last packet", func() bool {
			time.Sleep(500 * time.Millisecond)
			now := ""
			for _, l := range links {
				now += fmt.Sprint(n.captures[l.name].count(), " ")
			}
			quiet := now == last
			last = now
			return quiet
		})
		_ = cmd.Process.Signal(unix.SIGINT)
		if err := cmd.Wait(); err != nil {
			n.t.Errorf("radar collect: %v\n%s", err, &said)
		}
	}
}

// alike says what tells packets of TCP apart that several switches report: acknowledgements over IPv6
// may differ in nothing but a checksum and their options.
func alike(f []byte) string {
	p := parse(f)
	id := be.Uint16(f[p.l3+4:])
	if p.v == 6 {
		id = be.Uint16(f[p.l3+2:])
	}
	return fmt.Sprintf("%x %x %d %x %d", p.src(), p.dst(), id, f[p.l4:p.l4+16], p.end)
}

// compareHosts compares what a host has sent with what the other got. It returns how many packets of
// TCP there were, and how many of these cannot be told from another one.
func (n *network) compareHosts() (total, twins int) {
	n.t.Helper()
	tcp := func(link string, from byte) (all [][]byte) {
		for i, f := range n.captures[link].frames() {
			p := parse(f)
			if p.proto != 6 || p.src()[map[int]int{4: 2, 6: 3}[p.v]] != from {
				continue
			}
			if all = append(all, f); len(p.faults) > 0 {
				n.t.Errorf("link %s, frame %d: %v", link, i, p.faults)
			}
		}
		return all
	}
	same := make(map[string]int)
	for _, d := range []struct {
		from, to string
		host     byte
		last     step
	}{{"A", "B", 1, ways[0][3]}, {"B", "A", 2, step{from: routerMAC(1, 1), to: mac(hostMAC(1))}}} {
		sent, got := tcp(d.from, d.host), tcp(d.to, d.host)
		for i := range sent {
			same[alike(sent[i])]++
			sent[i] = plain(sent[i], 3, d.last)
		}
		total += len(sent)
		slices.SortFunc(sent, bytes.Compare)
		slices.SortFunc(got, bytes.Compare)
		if len(sent) < 40 || !slices.EqualFunc(sent, got, bytes.Equal) {
			n.t.Errorf("from link %s to %s: %d packets sent, %d came; want the same bytes", d.from, d.to, len(sent), len(got))
		}
	}
	for _, n := range same {
		if n > 1 {
			twins += n
		}
	}
	return total, twins
}

// compareWays asks radar which ways the packets went.
func (n *network) compareWays(sent, twins int) {
	n.t.Helper()
	radar := radarbin.Path(n.t)
	cmd := n.lab.Command(n.t.Context(), "c", radar, "paths", "-o", "json")
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("radar paths: %v", err)
	}
	whole, parts, seen := 0, 0, make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		var p struct {
			Packets int
			Path    string
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			n.t.Fatal(err)
		}
		if seen[p.Path] = true; strings.Count(p.Path, " > ") == 2 {
			whole += p.Packets
		} else {
			parts += p.Packets
		}
	}
	for _, way := range []string{"s1 > s2 > s4", "s1 > s3 > s4", "s4 > s2 > s1", "s4 > s3 > s1"} {
		if !seen[way] {
			n.t.Errorf("radar paths has not %s:\n%s", way, out)
		}
	}
	if whole > sent || whole < sent-twins || parts > 3*twins {
		n.t.Errorf("radar paths has %d packets with their ways, and %d others; %d were sent, %d of them like another one:\n%s", whole, parts, sent, twins, out)
	}
	fmt.Printf("%s: %d packets of the hosts' kernels arrived as they were sent, %d with their ways (%d are like another one)\n", n.t.Name(), sent, whole, twins)
}
