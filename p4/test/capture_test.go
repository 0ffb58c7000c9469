// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/p4/recorded"
)

// capture is a tcpdump on a link. It writes each packet as it comes.
type capture struct {
	path string
	from int // bytes of the file that are of earlier cases
}

// capture starts a capture on each link.
func (n *network) capture() {
	n.t.Helper()
	dir := n.t.TempDir()
	for _, l := range links {
		c := &capture{path: filepath.Join(dir, l.name+".pcap")}
		// -Z root: the folder is root's.
		cmd := n.lab.Command(n.t.Context(), l.machine, "tcpdump", "-i", l.port, "-Z", "root", "-n", "-s", "0", "-U", "--immediate-mode", "-B", "8192", "-w", c.path)
		var said lockedBuffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { end(cmd) })
		nstest.WaitFor(n.t, "tcpdump on link "+l.name, func() bool { return strings.Contains(said.String(), "listening on") })
		n.captures[l.name] = c
	}
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(unix.SIGINT)
	_ = cmd.Wait()
}

// packets reads what has been captured since skip was called. The last packet may be half written.
func (c *capture) packets() (list []recorded.Packet, end int) {
	b, _ := os.ReadFile(c.path)
	end = max(c.from, 24) // the header of the file
	for len(b) >= end+16 {
		h := b[end:]
		sec, usec, n := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:]), int(binary.LittleEndian.Uint32(h[8:]))
		if len(h) < 16+n {
			break
		}
		list = append(list, recorded.Packet{Time: time.Unix(int64(sec), int64(usec)*1000).UTC(), Data: bytes.Clone(h[16 : 16+n])})
		end += 16 + n
	}
	return list, end
}

func (c *capture) count() int {
	list, _ := c.packets()
	return len(list)
}

// skip forgets what has come until now.
func (c *capture) skip() { _, c.from = c.packets() }

func (c *capture) frames() (all [][]byte) {
	list, _ := c.packets()
	for _, p := range list {
		all = append(all, p.Data)
	}
	return all
}
