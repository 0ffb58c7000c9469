// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/loader"
)

// world is blue e0 - e0 dev e1 - e0 red: a device between two nodes.
type world struct {
	*nstest.Net
	t         *testing.T
	blue, red *Port
}

// newWorld makes one whose device does nothing yet, and whose nodes have no addresses.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Net: nstest.New(t, "blue", "dev", "red"), t: t}
	w.Veth("blue", "e0", "dev", "e0")
	w.Veth("red", "e0", "dev", "e1")
	return w
}

// bridge makes the device one.
func (w *world) bridge() *world {
	w.t.Helper()
	w.Run("dev", "ip", "link", "add", "br0", "type", "bridge")
	for _, port := range []string{"e0", "e1"} {
		w.Run("dev", "ip", "link", "set", port, "master", "br0")
	}
	w.Up("dev", "br0")
	return w.open()
}

// router makes the device one, of both IP versions.
func (w *world) router() *world {
	w.t.Helper()
	for _, a := range []struct{ node, port, addr string }{
		{"blue", "e0", "10.0.1.1/24"}, {"dev", "e0", "10.0.1.2/24"}, {"dev", "e1", "10.0.2.2/24"}, {"red", "e0", "10.0.2.1/24"},
		{"blue", "e0", "2001:db8:1::1/64"}, {"dev", "e0", "2001:db8:1::2/64"}, {"dev", "e1", "2001:db8:2::2/64"}, {"red", "e0", "2001:db8:2::1/64"},
	} {
		w.Address(a.node, a.port, a.addr)
	}
	w.Run("dev", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	w.Run("blue", "ip", "route", "add", "default", "via", "10.0.1.2")
	w.Run("red", "ip", "route", "add", "default", "via", "10.0.2.2")
	w.Run("blue", "ip", "-6", "route", "add", "default", "via", "2001:db8:1::2")
	w.Run("red", "ip", "-6", "route", "add", "default", "via", "2001:db8:2::2")
	return w.open()
}

// open opens the ports at which the device hangs.
func (w *world) open() *world {
	w.t.Helper()
	w.blue, w.red = w.port("blue", "e0"), w.port("red", "e0")
	return w
}

func (w *world) port(node, device string) *Port {
	w.t.Helper()
	ns, _, err := host.OpenNetns(w.Path(node))
	if err != nil {
		w.t.Fatal(err)
	}
	defer ns.Close()
	p, err := OpenPort(node+"/"+device, ns, device)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.Close)
	return p
}

// rig opens one that sends from blue to red.
func (w *world) rig(wish Wish, cfg Config) *Rig {
	w.t.Helper()
	a, err := Resolve(w.t.Context(), w.blue, w.red, wish)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.In, cfg.Out, cfg.Addresses = w.blue, w.red, *a
	if cfg.Hook == "" {
		cfg.Hook = loader.HookAuto
	}
	if cfg.Packets == 0 {
		cfg.Packets = 1000
	}
	r, err := Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

// run is a trial whose packets are waited for as long as a busy machine may take.
func (w *world) run(r *Rig, t Trial) *Outcome {
	w.t.Helper()
	if t.Duration == 0 {
		t.Duration = nstest.Patience
	}
	if t.Wait == 0 {
		t.Wait = 2 * time.Second
	}
	o, err := r.Run(w.t.Context(), t)
	if err != nil {
		w.t.Fatal(err)
	}
	if o.Sent != t.Packets || o.Tried != t.Packets {
		w.t.Fatalf("%d of %d packets left, %d tried", o.Sent, t.Packets, o.Tried)
	}
	return o
}

// tcpdump is a capture at a port, of all that is UDP.
type tcpdump struct {
	w    *world
	file string
	cmd  *exec.Cmd
	said safeBuffer
}

// safeBuffer can be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (w *world) capture(node, device string) *tcpdump {
	w.t.Helper()
	need.Programs(w.t, "tcpdump", "nsenter:util-linux")
	d := &tcpdump{w: w, file: filepath.Join(w.t.TempDir(), node+".pcap")}
	d.cmd = exec.Command("nsenter", "--net="+w.Path(node), "tcpdump", "-i", device, "-n", "-U", "-s", "0", "-B", "16384",
		"--time-stamp-precision=nano", "-Z", "root", "-w", d.file, "udp or (vlan and udp)")
	d.cmd.Stderr = &d.said
	if err := d.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	nstest.WaitFor(w.t, "tcpdump to listen", func() bool { return strings.Contains(d.said.String(), "listening on") })
	return d
}

// seen is a test packet in a capture.
type seen struct {
	at    time.Time
	seq   uint32
	frame []byte
}

// stop ends the capture, and returns the test packets of a trial in it, in their order. It must have
// so many.
func (d *tcpdump) stop(r *Rig, trial uint32, want int) (list []seen) {
	d.w.t.Helper()
	nstest.WaitFor(d.w.t, "tcpdump to have all packets in its file", func() bool {
		list = d.read(r, trial)
		return len(list) >= want
	})
	if err := d.cmd.Process.Signal(unix.SIGINT); err != nil {
		d.w.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.w.t.Fatalf("tcpdump: %v\n%s", err, d.said.String())
	}
	if !strings.Contains(d.said.String(), "\n0 packets dropped by kernel") {
		d.w.t.Fatalf("the capture is not complete:\n%s", d.said.String())
	}
	if list = d.read(r, trial); len(list) != want {
		d.w.t.Errorf("%d packets in the capture, want %d", len(list), want)
	}
	return list
}

// read returns what is in the file by now.
func (d *tcpdump) read(r *Rig, trial uint32) (list []seen) {
	file, err := os.Open(d.file)
	if err != nil {
		return nil
	}
	defer file.Close()
	pcap, err := pcapgo.NewReader(file)
	if err != nil {
		return nil
	}
	var mark []byte
	for _, word := range []uint32{0x72647574, r.run, trial} {
		mark = binary.BigEndian.AppendUint32(mark, word)
	}
	for {
		frame, info, err := pcap.ReadPacketData()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return list
		}
		if err != nil {
			d.w.t.Fatal(err)
		}
		if at := bytes.Index(frame, mark); at >= 0 {
			list = append(list, seen{info.Timestamp, binary.BigEndian.Uint32(frame[at+12:]), frame})
		}
	}
}
