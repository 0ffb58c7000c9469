// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
)

// packet is what these tests want to know of one that tcpdump saw.
type packet struct {
	at                 time.Time
	src, dst           string
	sport, dport, ttl  int
	tcp, icmp          bool
	icmpType, icmpCode uint8
}

// capture runs tcpdump at an interface.
func capture(t *testing.T, l *lab.Lab, machine, ifname, filter string) *dump {
	t.Helper()
	path := filepath.Join(t.TempDir(), machine+"-"+ifname+".pcap")
	// Each place in tcpdump's ring has room for as much as it may keep of a packet: of
	// whole ones the ring holds eight.
	cmd := l.Command(context.Background(), machine, "tcpdump", "-i", ifname, "-n", "-U", "--immediate-mode", "-s", "192",
		"-Z", "root", "-w", path, filter)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start tcpdump: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "listening") {
		t.Fatalf("tcpdump at %s %s: %v %s", machine, ifname, err, line)
	}
	go io.Copy(io.Discard, said)
	return &dump{t, cmd, path}
}

// dump is a tcpdump that runs.
type dump struct {
	t    *testing.T
	cmd  *exec.Cmd
	path string
}

// stop waits for want IPv4 packets, and for what was captured besides them, ends tcpdump and
// returns all.
func (d *dump) stop(want int) []packet {
	d.t.Helper()
	await(want, d)
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
		if err != nil || strings.Contains(string(stat), ") S ") { // it sleeps: it has read all that is there
			break
		}
	}
	d.cmd.Process.Signal(os.Interrupt)
	d.cmd.Wait()
	return readPackets(d.t, d.path)
}

// await waits until files have so many packets together; who wants them counts them again.
func await(want int, dumps ...*dump) {
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		n := 0
		for _, d := range dumps {
			n += len(readPackets(d.t, d.path))
		}
		if n >= want {
			return
		}
	}
}

func readPackets(t *testing.T, path string) []packet {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []packet
	for {
		data, info, err := r.ReadPacketData()
		if err != nil { // also one that is half written
			return list
		}
		if p, ok := decode(data, info.Timestamp); ok {
			list = append(list, p)
		}
	}
}

func decode(data []byte, at time.Time) (p packet, ok bool) {
	all := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.NoCopy)
	p.at = at
	for _, l := range all.Layers() {
		switch l := l.(type) {
		case *layers.IPv4:
			ok = true
			p.src, p.dst, p.ttl = l.SrcIP.String(), l.DstIP.String(), int(l.TTL)
		case *layers.UDP:
			p.sport, p.dport = int(l.SrcPort), int(l.DstPort)
		case *layers.TCP:
			p.tcp, p.sport, p.dport = true, int(l.SrcPort), int(l.DstPort)
		case *layers.ICMPv4:
			p.icmp, p.icmpType, p.icmpCode = true, l.TypeCode.Type(), l.TypeCode.Code()
		}
	}
	return p, ok
}
