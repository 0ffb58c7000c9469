// SPDX-License-Identifier: Apache-2.0

// Package readers finds the processes that read all that comes in at interfaces of nodes.
package readers

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Reader is a process that has a packet socket for all that comes in at interfaces of a node:
// a switch in user space, or tcpdump. Which of the two it is nobody can see before it sends.
type Reader struct {
	Node  string
	PID   int
	Name  string // as the kernel has it, without what cannot be printed
	Ports int    // interfaces that it reads; AllPorts: whatever the node has
}

// AllPorts is Reader.Ports of a socket that is bound to no interface.
const AllPorts = -1

// ReadsSeveral says whether it could take packets from one interface to another one.
func (r *Reader) ReadsSeveral() bool { return r.Ports == AllPorts || r.Ports > 1 }

// maxReaders bounds how many packet sockets are looked at in one node; maxSocketFile how much
// of the kernel's list: whoever controls a node can make any number.
const (
	maxReaders    = 1024
	maxSocketFile = 1 << 20
)

// Find finds the readers in these nodes, in their order; of one node those with most
// interfaces first. It is best effort: processes that cannot be looked at are left out.
func Find(nodes []topo.NodeSpec) []Reader {
	type socket struct{ node, ifindex int }
	sockets := make(map[string]socket) // by inode
	for i, n := range nodes {
		// The error says that the namespace is gone.
		_ = n.Do(func() error {
			for inode, ifindex := range readingSockets() {
				sockets[inode] = socket{i, ifindex}
			}
			return nil
		})
	}
	if len(sockets) == 0 {
		return nil
	}
	type process struct{ node, pid int }
	ports := make(map[process]map[int]bool)
	for pid, inodes := range socketsOfProcesses() {
		for _, inode := range inodes {
			s, ok := sockets[inode]
			if !ok {
				continue
			}
			p := process{s.node, pid}
			if ports[p] == nil {
				ports[p] = make(map[int]bool)
			}
			ports[p][s.ifindex] = true
		}
	}
	var found []Reader
	at := make(map[string]int)
	for p, of := range ports {
		r := Reader{Node: nodes[p.node].Name, PID: p.pid, Name: processName(p.pid), Ports: len(of)}
		if of[0] {
			r.Ports = AllPorts
		}
		at[r.Node] = p.node
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b Reader) int {
		return cmp.Or(cmp.Compare(at[a.Node], at[b.Node]), cmp.Compare(uint(b.Ports), uint(a.Ports)), cmp.Compare(a.PID, b.PID))
	})
	return found
}

// readingSockets are the packet sockets of the thread's namespace that get all frames: their
// inode numbers, and to which interface they are bound, 0 for none. Those for one protocol read
// what TC has let in, with true headers.
func readingSockets() map[string]int {
	f, err := os.Open("/proc/thread-self/net/packet")
	if err != nil {
		return nil
	}
	defer f.Close()
	return parsePacketSockets(io.LimitReader(f, maxSocketFile))
}

// parsePacketSockets reads /proc/net/packet: address, references, type, protocol, interface,
// whether it runs, memory, user, inode.
func parsePacketSockets(r io.Reader) map[string]int {
	sockets := make(map[string]int)
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(sockets) < maxReaders {
		f := strings.Fields(lines.Text())
		if len(f) < 9 || f[5] != "1" {
			continue
		}
		protocol, err := strconv.ParseUint(f[3], 16, 16)
		ifindex, err2 := strconv.Atoi(f[4])
		if err == nil && err2 == nil && protocol == unix.ETH_P_ALL {
			sockets[f[8]] = ifindex
		}
	}
	return sockets
}

// socketsOfProcesses are the inode numbers of all sockets of all processes that can be looked
// at, one process after the other.
func socketsOfProcesses() func(yield func(int, []string) bool) {
	return func(yield func(int, []string) bool) {
		dirs, _ := filepath.Glob("/proc/[0-9]*/fd") // the pattern is well formed
		for _, dir := range dirs {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
			if err != nil {
				continue
			}
			d, err := os.Open(dir)
			if err != nil {
				continue // it has ended
			}
			names, _ := d.Readdirnames(-1)
			d.Close()
			var inodes []string
			for _, name := range names {
				target, err := os.Readlink(filepath.Join(dir, name))
				inode, ok := strings.CutPrefix(target, "socket:[")
				if err == nil && ok {
					inodes = append(inodes, strings.TrimSuffix(inode, "]"))
				}
			}
			if len(inodes) > 0 && !yield(pid, inodes) {
				return
			}
		}
	}
}

// processName is what the kernel calls a process. A process chooses that itself.
func processName(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	name := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSuffix(string(b), "\n"))
	if err != nil || name == "" {
		return "process " + strconv.Itoa(pid)
	}
	return name
}
