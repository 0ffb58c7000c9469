// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// card is a network interface of a virtual machine: a tap of a node, whose other end has
// the MAC address mac(machine, tap).
type card struct {
	tap  string
	addr string // with the length of its prefix
	more string // commands of the guest for this interface, which is $dev; "": none
}

// guest is the first process of a virtual machine: it sees this machine's files. What is
// the chance of kernels elsewhere is fixed here as in World.Nodes.
const guest = `export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
cd /proc/sys/net
for f in ipv6/conf/all/disable_ipv6 ipv6/conf/default/disable_ipv6; do echo 1 > $f; done
echo 0 > ipv4/icmp_ratelimit; echo 100000 > ipv4/icmp_msgs_per_sec; echo 10000 > ipv4/icmp_msgs_burst
`

const guestIsUp = "the guest is up"

// Machine starts user-mode Linux with taps of a node, each in a bridge of its own with a
// port of the node, and waits until it is up. It forwards if its interfaces' commands say
// so. The machine has no captures: the taps' own show what it gets and sends.
func (w *World) Machine(node, name string, bridges map[string]string, cards ...card) {
	w.T.Helper()
	script := guest
	wrapper, err := filepath.Abs("../../scenarios/vmrouter/shared/uml.pl")
	if err != nil {
		w.T.Fatal(err)
	}
	args := []string{"--net=" + w.Path(node), "perl", wrapper, "linux.uml", "mem=64M", "umid=" + name, "uml_dir=" + w.T.TempDir(),
		"con=null", "con0=null,fd:1", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"}
	for i, c := range cards {
		w.Run(node, "ip", "tuntap", "add", c.tap, "mode", "tap")
		w.fixMAC(node, c.tap)
		if port := bridges[c.tap]; port != "" {
			w.Device(node, "br-"+c.tap, "", "type", "bridge")
			w.Run(node, "ip", "link", "set", port, "master", "br-"+c.tap)
			w.Run(node, "ip", "link", "set", c.tap, "master", "br-"+c.tap)
		}
		w.Up(node, c.tap)
		w.taps = append(w.taps, tap{node: node, name: c.tap, machine: mac(name, c.tap)})
		args = append(args, fmt.Sprintf("vec%d:transport=tap,ifname=%s,depth=128,gro=1,mac=%v", i, c.tap, mac(name, c.tap)))
		script += fmt.Sprintf("dev=vec%d; ip address add %s dev $dev; ip link set $dev up; %s\n", i, c.addr, c.more)
	}
	file := w.T.TempDir() + "/guest"
	script += "echo " + guestIsUp + "; while :; do sleep 1000; done\n"
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		w.T.Fatal(err)
	}
	cmd := exec.Command("nsenter", append(args, "init=/bin/dash", "--", file)...)
	// A file, not a pipe, and a group: user-mode Linux is several processes, and those
	// that are left hold what they were given.
	console, err := os.Create(w.T.TempDir() + "/console")
	if err != nil {
		w.T.Fatal(err)
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	w.functions = append(w.functions, cmd.Process.Pid)
	for end := time.Now().Add(mostWait); ; time.Sleep(20 * time.Millisecond) {
		said, err := os.ReadFile(console.Name())
		if err != nil || time.Now().After(end) {
			w.T.Fatalf("virtual machine %s is not up: %v\n%s", name, err, said)
		}
		if bytes.Contains(said, []byte(guestIsUp)) {
			break
		}
	}
	// A bridge learns of a port's carrier when a worker of the kernel gets to it.
	for tap, port := range bridges {
		nstest.WaitFor(w.T, fmt.Sprintf("the bridge of %s and %s to forward", tap, port), func() bool {
			return forwards(w, node, tap) && forwards(w, node, port)
		})
	}
}

// forwards reports whether a port of a bridge forwards.
func forwards(w *World, node, port string) bool {
	return strings.Contains(w.Run(node, "ip", "-d", "link", "show", "dev", port), " state forwarding ")
}

// tap is an interface of a node behind which a virtual machine is.
type tap struct {
	node, name string
	machine    net.HardwareAddr // its address at the other end
}

// nudges are so many because a nudge may be held back as well.
const nudges = 3

// nudge sends every virtual machine a frame of no protocol that it knows, on each tap, and
// reports whether there is a machine. On a busy CPU, user-mode Linux at times misses that a packet
// has come, and reads it with the next one: with four of these tests beside each other,
// 5 of 232 runs ended with a packet that it had not read.
func (w *World) nudge() bool {
	w.T.Helper()
	for _, t := range w.taps {
		// 0x88b5 is for local experiments (IEEE 802).
		w.SendRaw(t.node, t.name, ethernet(t.machine, mac(t.node, t.name), 0x88b5, make([]byte, 46)))
	}
	return len(w.taps) > 0
}
