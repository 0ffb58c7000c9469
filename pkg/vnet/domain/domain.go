// SPDX-License-Identifier: Apache-2.0

// Package domain describes a measurement domain: its nodes, ports and options,
// and where its state lies. It is the one place for names; the kernel's maps
// know numbers only. The description is a JSON file in the state directory,
// replaced as a whole; whoever changes it holds the domain's lock.
package domain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
)

// Version of the description and of the pins; both change with the ABI.
const Version = 10

// DefaultName is the domain that commands use when none is named.
const DefaultName = system.DefaultName

// The errors of Load, as system has them: detaching works for ErrDamaged, and of what Load returns with ErrOtherVersion the
// nodes can be relied on.
var (
	ErrNotAttached  = system.ErrNotAttached
	ErrHalfAttached = system.ErrHalfAttached
	ErrDamaged      = system.ErrDamaged
	ErrOtherVersion = system.ErrOtherVersion
)

// Domain is the description of one domain.
type Domain struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Epoch   uint32    `json:"epoch"` // random at attach; first half of every packet's id
	Created time.Time `json:"created"`
	Host    string    `json:"host,omitempty"` // the machine's name at attach
	// WallOffset turns CLOCK_MONOTONIC, which all stamps have, into Unix time; ns, as
	// of attach. It holds until the wall clock is set; see backpack.Decoder.
	WallOffset int64   `json:"wall_offset_ns,omitempty"`
	Options    Options `json:"options"`
	Nodes      []Node  `json:"nodes"` // in the order of their IDs, as are ports
	Ports      []Port  `json:"ports"`
	VMs        []VM    `json:"vms,omitempty"`
	// Members are those of the domain's bridges that have no program.
	Members []Member `json:"members,omitempty"`
	// Removed nodes and ports stay listed, so that old records keep their names.
	LossHook string `json:"loss_hook"` // "tp_btf/kfree_skb", or "" where the kernel has none
	// LocalHook tells of packets that a node redirects to itself: "netfilter/LOCAL_IN", or
	// "" where the kernel has none. The agent holds it in nodes with such rules.
	LocalHook string `json:"local_hook,omitempty"`
	// QueueHook is "tp_btf/qdisc_dequeue" while packets are seen leaving the queues of
	// internal ports; "": no such port has a queue, or the kernel cannot tell.
	QueueHook string `json:"queue_hook,omitempty"`
	// ChangeHook is "tp_btf/qdisc_create" where programs see interfaces come and move;
	// "": the kernel has none, and the agent has to notice.
	ChangeHook string `json:"change_hook,omitempty"`

	// Selectors are what the user named the nodes by; see pkg/vnet/selector.
	Selectors []string `json:"selectors,omitempty"`
	// WatchContainers: containers that the selectors match join when they start.
	WatchContainers bool `json:"watch_containers,omitempty"`
	// HeaderNodes are the names of nodes that the user wants to carry the header.
	HeaderNodes []string `json:"header_nodes,omitempty"`
}

// Options are fixed for the life of a domain.
type Options struct {
	Slots     uint32        `json:"slots"`      // of the ring, a power of two
	SlotBytes uint32        `json:"slot_bytes"` // a multiple of 64
	GUIDBits  string        `json:"guid_bits"`  // as given: "auto", a number, or "paper"
	Carry     string        `json:"carry"`      // "auto", "mark" or "header"
	MarkMask  uint32        `json:"mark_mask"`  // 0: all nodes carry the header
	Timeout   time.Duration `json:"timeout_ns"`
	MinAge    time.Duration `json:"min_age_ns"`
	Lease     time.Duration `json:"lease_ns"` // 0: never ends
	Keys      uint32        `json:"keys"`     // entries for packets measured by key
	Hook      string        `json:"hook"`     // "tcx" or "clsact"
	IPv6      string        `json:"ipv6"`     // "label", "key" or "off"
	// LabelUsers is why IPv6 is found by key: what hashes on the flow label. Empty
	// where the user chose.
	LabelUsers []string `json:"label_users,omitempty"`
	Watch      string   `json:"watch,omitempty"` // filter expression of what is measured; "": all
	// WatchProgram is what was made of it at attach: names in it may mean something else by now.
	WatchProgram []bpf.RawInstruction `json:"watch_program,omitempty"`
}

// Node is one attached network namespace. IDs are never reused within a domain.
type Node struct {
	ID      uint16 `json:"id"`
	Name    string `json:"name"`
	Spec    string `json:"spec"` // as the user named it: netns:NAME, pid:N, docker:NAME, ...
	Path    string `json:"path"` // where the namespace can be opened
	Inum    uint32 `json:"inum"` // inode number of the namespace
	Removed bool   `json:"removed,omitempty"`
	// Auto: a closing node, which radar found: the namespace of a bridge between
	// attached nodes, attached for the bridge's ports only.
	Auto bool `json:"auto,omitempty"`
	// Header says why this node carries the GUID in the header, while others carry it
	// in the mark: the rule that needs the bits, or the setting that asked for it, with
	// marks of pkg/fault. "": it does not.
	Header string `json:"header,omitempty"`
	// Late: it gave the mark up for that while it was attached.
	Late bool `json:"late,omitempty"`
	// Apart says why this node carries the GUID in neither: what in it would take the
	// header's bits along. Stories end where they enter it, and begin anew. "": it does not.
	Apart string `json:"apart,omitempty"`
	// Redirects: it has rules or routes that can deliver packets for others to itself.
	Redirects bool `json:"redirects,omitempty"`
	// Switch is the process that forwards packets in this node, by packet sockets, so that
	// the kernel drops its own copies. "": none was seen to do so.
	Switch string `json:"switch,omitempty"`
}

// Port is one attached interface. An ID is used again only within its node, and only where the
// node, or the domain, has used up its numbers.
type Port struct {
	ID      uint16 `json:"id"`
	Node    uint16 `json:"node"`
	Name    string `json:"name"`
	Ifindex int    `json:"ifindex"`
	Kind    string `json:"kind"`             // link kind: veth, tun, ...
	Role    Role   `json:"role"`             // internal or edge
	Forced  bool   `json:"forced,omitempty"` // role given by --role
	Peer    int    `json:"peer"`             // port at the other end, -1 if none is known
	L3      bool   `json:"l3,omitempty"`     // no Ethernet header
	// OwnQdisc: radar created the clsact qdisc, and removes it if it is empty.
	OwnQdisc bool `json:"own_qdisc,omitempty"`
	Removed  bool `json:"removed,omitempty"`
	// Tunnel: its packets travel inside others, see topo.Tunnel.
	Tunnel bool `json:"tunnel,omitempty"`
	// Stitched: Peer is reached by way of two interfaces that tc joins, see topo.Port.
	Stitched bool `json:"stitched,omitempty"`
	// True: no bit is changed on this link, because outer headers take them over, or because
	// it is stitched.
	True bool `json:"true_bits,omitempty"`
	// Queue is the kind of the root queueing discipline; "": packets are not queued.
	Queue string `json:"queue,omitempty"`
	// QueueSince (CLOCK_MONOTONIC): what goes out from then on is expected to be seen as it leaves
	// that queue; 0: there is none.
	QueueSince uint64 `json:"queue_since_ns,omitempty"`
	// Link is the bridge link that the port hangs on, "CLOSINGNODE/BRIDGE"; of
	// attached ends and of closing ports.
	Link  string `json:"link,omitempty"`
	Place Place  `json:"place,omitempty"` // in a closing node; "" in any other
	// Network is what Docker calls the network that this bridge is; "": it is none, or the engine
	// did not say. Name is the bridge's own name.
	Network string `json:"network,omitempty"`
	// Open: another port of the same link could not be attached, so this one only
	// restores, and the link's attached ends are edges.
	Open bool `json:"open,omitempty"`
	// Lower is NODE/INTERFACE of what the port stands on in another node (macvlan, ipvlan, VLAN);
	// Outside: in a namespace that is not attached. "": nothing of the kind.
	Lower string `json:"lower,omitempty"`
	// Beside are the ports on the same interface that it reaches without going out there.
	Beside []uint16 `json:"beside,omitempty"`
	// VM is the id of the virtual machine that has this tap open, 0 if there is none.
	VM uint16 `json:"vm,omitempty"`
}

// Member is an interface of a closing node by which a bridge reaches an attached port. It has no
// program, so it is no port; but packets are lost there. In records it is a port: its ID is one
// of those of ports.
type Member struct {
	ID      uint16 `json:"id"`
	Node    uint16 `json:"node"`
	Name    string `json:"name"`
	Ifindex int    `json:"ifindex"`
	Link    string `json:"link"`         // as the bridge's port has it
	To      string `json:"to,omitempty"` // NODE/PORT of the attached port
	// Removed members stay listed, like ports, until their number is needed.
	Removed bool `json:"removed,omitempty"`
}

// VM is a virtual machine, or another process, that has taps of nodes open. In records
// it is a node of its own, though no program runs in it: its ID is one of those of nodes.
type VM struct {
	ID    uint16       `json:"id"`
	Name  string       `json:"name"`
	Ports []string     `json:"ports"`           // NODE/PORT, as the user named them
	Addrs []netip.Addr `json:"addrs,omitempty"` // that it owns
	// Removed machines stay listed, like nodes.
	Removed bool `json:"removed,omitempty"`
}

// Place is what a port of a closing node is to the bridge link.
type Place string

// The places of closing ports.
const (
	BridgePort Place = "bridge-port" // a member of the bridge: behind it is the outside
	Bridge     Place = "bridge"      // the bridge device: behind it is the closing node itself
	BridgeEnd  Place = "bridge-end"  // a Member, which no list of ports has
)

// Outside is what is in no attached node.
const Outside = "outside"

// Role of a port: whether what leaves there stays inside the domain.
type Role string

// The roles of a port.
const (
	Internal Role = "internal"
	Edge     Role = "edge"
)

// NodeByID returns the node with that id, or nil.
func (d *Domain) NodeByID(id uint16) *Node {
	return byID(d.Nodes, id, func(n *Node) uint16 { return n.ID })
}

// byID finds what has that id in a list in the order of ids, as domains have them: new ones
// come last. A domain may list thousands that are gone.
func byID[T any](list []T, id uint16, of func(*T) uint16) *T {
	i := sort.Search(len(list), func(i int) bool { return of(&list[i]) >= id })
	if i == len(list) || of(&list[i]) != id {
		return nil
	}
	return &list[i]
}

// VMByID returns the virtual machine with that id, or nil.
func (d *Domain) VMByID(id uint16) *VM {
	for i := range d.VMs {
		if d.VMs[i].ID == id {
			return &d.VMs[i]
		}
	}
	return nil
}

// VMNamed returns the virtual machine of that name which is not removed, or nil.
func (d *Domain) VMNamed(name string) *VM {
	for i := range d.VMs {
		if d.VMs[i].Name == name && !d.VMs[i].Removed {
			return &d.VMs[i]
		}
	}
	return nil
}

// Chosen are the nodes that the user attached, without those that were taken out again.
func (d *Domain) Chosen() []Node {
	return slices.DeleteFunc(slices.Clone(d.Nodes), func(n Node) bool { return n.Removed || n.Auto })
}

// HasNode says whether any of the names is not a virtual machine's.
func (d *Domain) HasNode(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return d.VMNamed(name) == nil })
}

// IsWhole says whether the names are all nodes that the user attached. Virtual machines can
// be among them; machines alone, or a name that the domain has not, are not the whole.
func (d *Domain) IsWhole(names []string) bool {
	chosen := d.Chosen()
	for _, n := range chosen {
		if !slices.Contains(names, n.Name) {
			return false
		}
	}
	for _, name := range names {
		if d.VMNamed(name) == nil && !slices.ContainsFunc(chosen, func(n Node) bool { return n.Name == name }) {
			return false
		}
	}
	return d.HasNode(names)
}

// PortByID returns the port with that id, or nil.
func (d *Domain) PortByID(id uint16) *Port {
	return byID(d.Ports, id, func(p *Port) uint16 { return p.ID })
}

// Load reads the description. Errors: ErrNotAttached, ErrHalfAttached, ErrDamaged, ErrOtherVersion.
func Load(name string) (*Domain, error) { return usable(system.Load(Kind, name, (*Domain).check)) }

// usable is a description as others may rely on it: ports of one that was not checked have nodes.
func usable(d *Domain, err error) (*Domain, error) {
	if errors.Is(err, ErrOtherVersion) {
		d.sort()
		d.dropLost()
	}
	return d, err
}

// sort puts nodes and ports in order, as byID needs them, whoever wrote the file.
func (d *Domain) sort() {
	slices.SortStableFunc(d.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(d.Ports, func(a, b Port) int { return cmp.Compare(a.ID, b.ID) })
}

// Age is how long ago the domain was attached, whatever the wall clock was set to since.
func (d *Domain) Age() time.Duration {
	return time.Duration(int64(clock.Monotonic()) - (d.Created.UnixNano() - d.WallOffset))
}

// Save replaces the description. The caller holds the lock.
func (d *Domain) Save() error { return Kind.Save(d.Name, d) }

// List returns the names of the domains on this machine.
func List() ([]string, error) { return Kind.List() }

// Lock creates the state directory if need be and takes the domain's lock,
// waiting for its holder. unlock releases it; a process that dies does too.
func Lock(name string) (unlock func(), err error) { return Kind.Lock(name) }

// LockAll takes the lock of those who add nodes to whatever domain: a namespace, and a
// bridge, belongs to one only. The caller holds the domain's own lock, so that the
// directory of all of them is there.
func LockAll(name string) (unlock func(), err error) {
	dir := filepath.Dir(Dir(name))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open state directory %s: %w", dir, err)
	}
	if err := statedir.Wait(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	return func() { unix.Close(fd) }, nil
}
