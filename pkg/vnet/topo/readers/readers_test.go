// SPDX-License-Identifier: Apache-2.0

package readers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Processes that read all of several interfaces of a node are found, and who reads one protocol
// is not among them.
func TestFindReaders(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Veth("a", "e1", "b", "e1")
	specs, err := topo.ParseSpecs([]string{n.Spec("a"), n.Spec("b")})
	if err != nil {
		t.Fatal(err)
	}
	listen := func(node, port string, protocol uint16) {
		t.Helper()
		index := 0
		if port != "" {
			index = n.Index(node, port)
		}
		spec := specs[0]
		if node == "b" {
			spec = specs[1]
		}
		err := spec.Do(func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { unix.Close(fd) })
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := func(readers ...Reader) {
		t.Helper()
		got := Find(specs)
		if len(got) != len(readers) {
			t.Fatalf("readers %+v, want %+v", got, readers)
		}
		for i := range got {
			readers[i].PID, readers[i].Name = os.Getpid(), strings.TrimSuffix(string(name), "\n")
			if got[i] != readers[i] {
				t.Errorf("reader %+v, want %+v", got[i], readers[i])
			}
		}
	}
	want()
	listen("a", "e0", unix.ETH_P_IP)
	want()
	listen("a", "e0", unix.ETH_P_ALL)
	listen("a", "e0", unix.ETH_P_ALL)
	want(Reader{Node: "a", Ports: 1})
	listen("b", "e0", unix.ETH_P_ALL)
	listen("a", "e1", unix.ETH_P_ALL)
	want(Reader{Node: "a", Ports: 2}, Reader{Node: "b", Ports: 1})
	if r := Find(specs); !r[0].ReadsSeveral() || r[1].ReadsSeveral() {
		t.Errorf("%+v: want the first one to read several interfaces", r)
	}
	listen("b", "", unix.ETH_P_ALL)
	want(Reader{Node: "a", Ports: 2}, Reader{Node: "b", Ports: AllPorts})
}

// The kernel's list is read as it is, and no further than its bound.
func TestPacketSockets(t *testing.T) {
	const head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
	list := head +
		"0000000000000000 3      3    0003   2     1 0      0      1234\n" +
		"0000000000000000 3      3    0003   2     0 0      0      1235\n" + // does not run
		"0000000000000000 3      3    0800   2     1 0      0      1236\n" +
		"0000000000000000 3      3    0003   x     1 0      0      1237\n" +
		"0000000000000000 3      3\n"
	got := parsePacketSockets(strings.NewReader(list))
	if len(got) != 1 || got["1234"] != 2 {
		t.Errorf("sockets %v, want 1234 at interface 2", got)
	}
	for inode := range maxReaders + 10 {
		list += fmt.Sprintf("0 3 3 0003 2 1 0 0 %d\n", inode)
	}
	if got := parsePacketSockets(strings.NewReader(list)); len(got) != maxReaders {
		t.Errorf("%d sockets are read, want %d", len(got), maxReaders)
	}
}
