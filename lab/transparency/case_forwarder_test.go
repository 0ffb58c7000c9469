// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vnetradar/radar/lab/test/radarbin"
)

// forwardFrames joins two ports of a node in user space until the test ends.
func (w *World) forwardFrames(node string, flags ...string) {
	w.T.Helper()
	args := append([]string{"--net=" + w.Path(node), radarbin.Path(w.T), "lab", "forward"}, flags...)
	cmd := exec.Command("nsenter", args...)
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	w.functions = append(w.functions, cmd.Process.Pid)
	for end := time.Now().Add(mostWait); strings.Count(w.Run(node, "cat", "/proc/net/packet"), "\n") < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.T.Fatalf("nothing forwards in %s", node)
		}
	}
}

var _ = add(Case{
	Name: "function/forwarder", Point: 8,
	Shows: "packets through a node whose forwarder reads and sends by packet sockets",
	Build: func(w *World) {
		w.Nodes("out", "r1", "f", "r2", "far")
		w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
		w.Link("r1", "eth1", "10.0.2.1/24", "f", "eth0", "")
		w.Link("f", "eth1", "", "r2", "eth0", "10.0.2.2/24")
		w.Link("r2", "eth1", "10.0.3.1/24", "far", "eth0", "10.0.3.2/24")
		w.Forward("r1", "r2")
		w.Route("out", "default", "10.0.1.2")
		w.Route("far", "default", "10.0.3.1")
		w.Route("r1", "10.0.3.0/24", "10.0.2.2")
		w.Route("r2", "10.0.1.0/24", "10.0.2.1")
		w.forwardFrames("f", "eth0", "eth1", "--delay", "2ms")
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "f", "r2")
	},
	Send: func(w *World) {
		for ttl := range 5 {
			for _, p := range []*Packet{
				w.UDP("10.0.1.1", "10.0.3.2", 60), w.TCP("10.0.1.1", "10.0.3.2", ACK, 100), w.Echo("10.0.1.1", "10.0.3.2", 56),
			} {
				p.TTL, p.TOS = []uint8{2, 3, 80, 64, 255}[ttl], 0x28
				s := w.Send("out", p)
				if p.TTL == 2 {
					s.Lost("r2", "IP_INHDR")
				}
			}
		}
		for id := range 3 { // two fragments, and a whole one with DF clear: found by key
			for _, at := range []int{0, 800, -1} {
				p := w.UDP("10.0.1.1", "10.0.3.2", 792)
				p.ID, p.MayFrag, p.More, p.FragOff = uint16(700+id), true, at == 0, max(at, 0)
				if at < 0 {
					p.ID += 100
				}
				w.Send("out", p)
			}
		}
		w.Send("far", w.Echo("10.0.3.2", "10.0.1.1", 800))
	},
	LocalDrops: true,
})
