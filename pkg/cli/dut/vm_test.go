// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// TestVirtualMachine: the device is a router in a virtual machine, whose kernel loses packets. What it
// lets out is what has come.
func TestVirtualMachine(t *testing.T) {
	need.AsRoot(t)
	need.Programs(t, "linux.uml:user-mode-linux", "insmod:kmod", "tcpdump")
	w := clitest.NewWorldOf(t, "vmrouter", map[string]string{"LOSS": "20"})
	file := filepath.Join(t.TempDir(), "vm.pcap")
	dump := w.Lab.Command(t.Context(), "v", "tcpdump", "-i", "tap1", "-n", "-U", "-s", "128", "-B", "16384", "-Z", "root", "-w", file, "udp port 9")
	clitest.Await(t, dump, "listening on")
	port := func(node string) string { return "netns:" + w.Lab.NetNSPath(node) + "/eth0" }
	r := measure(w, "--in", port("h1"), "--out", port("h2"), "--sizes", "64,1000", "--count", "200", "--rates", "200pps")
	if len(r.Rows) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, row := range r.Rows {
		trial := uint32(i + 2) // behind the one that warms up
		nstest.WaitFor(t, "the capture to have all packets", func() bool { return captured(t, file, trial) >= row.Received })
		if n := captured(t, file, trial); row.Sent != 200 || row.Lost == 0 || row.Received != n || row.Delay.MinNs <= 0 {
			t.Errorf("%+v, %+v: the machine has let out %d", row.Counts, row.Delay.Figures, n)
		}
	}
	endDump(t, dump)
}

func endDump(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

// captured is how many test packets of a trial are in the file.
func captured(t *testing.T, name string, trial uint32) (n int) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pcap, err := pcapgo.NewReader(file)
	if err != nil {
		return 0
	}
	for {
		frame, _, err := pcap.ReadPacketData()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(string(frame), "rdut"); at >= 0 && binary.BigEndian.Uint32(frame[at+8:]) == trial {
			n++
		}
	}
}
