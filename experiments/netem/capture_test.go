// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
)

// tcpdumpFlush is longer than the kernel keeps packets from tcpdump, to give it some at once.
const tcpdumpFlush = 2 * time.Second

// Of a frame with IPv4 without options, and UDP.
const (
	frameIP      = 14
	frameUDP     = frameIP + 20
	framePayload = frameUDP + 8
)

// seen is a packet as captures know it.
type seen struct {
	flow   ports
	number uint32 // its payload begins with
}

// capture is a tcpdump that runs.
type capture struct {
	cmd  *exec.Cmd
	file string
}

// startCapture starts tcpdump for UDP to h2 on a port, and returns when it listens. It sees
// what comes in, and what goes out as it leaves the queue.
func startCapture(t *testing.T, l *lab.Lab, machine, port string) *capture {
	t.Helper()
	c := &capture{file: filepath.Join(t.TempDir(), "pcap")}
	log, err := os.Create(c.file + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd = l.Command(t.Context(), machine, "tcpdump", "-i", port, "-n", "-p", "-s", "96", "-B", "4096",
		"--time-stamp-precision", "nano", "-Z", "root", "-w", c.file, "udp and dst host "+h2.String())
	c.cmd.Stderr = log
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start tcpdump: %v", err)
	}
	nstest.Cleanup(t, func() { // does nothing to one that has ended
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	nstest.WaitFor(t, "tcpdump in "+machine+" to listen", func() bool { return strings.Contains(c.said(t), "listening on") })
	return c
}

func (c *capture) said(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(c.file + ".log")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stop ends the capture and returns when each packet was seen.
func (c *capture) stop(t *testing.T) map[seen]time.Time {
	t.Helper()
	nstest.WaitFor(t, "tcpdump to have read what there is", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		return err != nil || strings.Contains(string(stat), ") S ")
	})
	if err := c.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil || !strings.Contains(c.said(t), "\n0 packets dropped by kernel") {
		t.Fatalf("the capture is not complete: %v: %s", err, c.said(t))
	}
	f, err := os.Open(c.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatalf("read the capture: %v", err)
	}
	times := map[seen]time.Time{}
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return times
		}
		if err != nil || len(b) < framePayload+4 {
			t.Fatalf("read the capture: a packet of %d bytes: %v", len(b), err)
		}
		port := func(at int) int { return int(binary.BigEndian.Uint16(b[at:])) }
		s := seen{ports{port(frameUDP), port(frameUDP + 2)}, binary.BigEndian.Uint32(b[framePayload:])}
		if _, twice := times[s]; twice {
			t.Errorf("packet %v came twice", s)
		}
		times[s] = info.Timestamp
	}
}

// captures are those on both sides of every machine that delays.
type captures map[string][2]*capture

func startCaptures(t *testing.T, l *lab.Lab) captures {
	t.Helper()
	nameRoot(t)
	all := captures{}
	for machine := range most {
		all[machine] = [2]*capture{startCapture(t, l, machine, "eth0"), startCapture(t, l, machine, "eth1")}
	}
	return all
}

// nameRoot gives a machine of lab/test/kernels a user: tcpdump will not run without a name.
func nameRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("RADAR_OWN_MACHINE") == "" {
		return
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/etc/passwd", []byte("root:x:0:0::/root:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stop ends them and returns how long each packet was in each machine.
func (c captures) stop(t *testing.T) map[string]map[seen]time.Duration {
	t.Helper()
	time.Sleep(tcpdumpFlush)
	all := map[string]map[seen]time.Duration{}
	for machine, sides := range c {
		in, out := sides[0].stop(t), sides[1].stop(t)
		if len(in) != len(out) {
			t.Errorf("%s: %d packets came, %d went", machine, len(in), len(out))
		}
		all[machine] = map[seen]time.Duration{}
		for s, left := range out {
			came, ok := in[s]
			if !ok {
				t.Errorf("%s: packet %v went and did not come", machine, s)
				continue
			}
			all[machine][s] = left.Sub(came)
		}
	}
	return all
}
