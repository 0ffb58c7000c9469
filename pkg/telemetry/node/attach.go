// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

// Request gives targets a role.
type Request struct {
	Domain   string
	Targets  []Target // none: only options change
	Roles    Flags    // Source and Sink, one of them or both, or Inside
	Settings Settings
	// Options changes those of the domain; nil: they stay, or are the defaults. It is called with what
	// the domain has.
	Options func(*Options) error
	Hook    string // of a new domain: loader.HookAuto, hook.ByTCX or hook.ByClsact
	Via     *Place // from where reports are sent; nil: as before, or from the namespace of this process
	Managed bool   // intents ask for it, not a user: both in one domain are refused
}

// Result is what Attach has made.
type Result struct {
	Domain   *Domain
	New      bool
	Warnings []string
}

// DefaultOptions are those of a domain of which nobody says anything else.
func DefaultOptions() Options {
	return Options{
		Mark: Mark{DSCP: 0x17, Mask: 0x3f}, Report: Report20, Quote: 128, Lease: 30 * time.Second,
		Entries: []Entry{{Mode: MD, Instructions: DefaultInstructions, Hops: 16, Sample: 1}},
	}
}

// Attach gives roles. It changes the domain as a whole, or nothing. Sources of a new domain mark when an
// agent has renewed the lease.
func Attach(ctx context.Context, req Request) (*Result, error) {
	unlock, err := Lock(req.Domain)
	if err != nil {
		return nil, err
	}
	defer unlock()
	was, err := Load(req.Domain)
	if errors.Is(err, ErrHalfAttached) || errors.Is(err, ErrDamaged) { // a killed attach has left it, or somebody has removed the state directory
		err := Kind.Kept(req.Domain).HeldElsewhere()
		if err == nil {
			err = removeAll(&Domain{Name: req.Domain})
		}
		if err != nil {
			_ = Kind.Forget(req.Domain)
			return nil, err
		}
	} else if err != nil && !errors.Is(err, ErrNotAttached) {
		return nil, err
	}
	r, err := attach(ctx, req, was)
	if err != nil && was == nil {
		_ = Kind.Forget(req.Domain)
	}
	return r, err
}

func attach(ctx context.Context, req Request, was *Domain) (*Result, error) {
	if was != nil {
		if err := checkStays(req.Domain); err != nil {
			return nil, err
		}
	}
	next, m, err := req.merge(was)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Result{Domain: next, New: was == nil, Warnings: probe().lacks()}
	if err := next.claimQdiscs(m.links); err != nil {
		return nil, err
	}
	// From here on a crash leaves what the description tells how to take off.
	if err := next.save(); err != nil {
		return nil, err
	}
	warnings, err := apply(was, next, m.reload, m.links)
	if err == nil {
		err = next.switchOffloads(m.links)
	}
	if err == nil {
		err = next.save()
	}
	if err != nil {
		return nil, errors.Join(err, undo(next, was))
	}
	r.Warnings = append(r.Warnings, warnings...)
	return r, nil
}

// claimQdiscs notes which clsact qdiscs will be ours, before they are made: nobody can tell whose one is that has no filter.
func (d *Domain) claimQdiscs(links map[uint32][]Interface) error {
	if d.Hook != hook.ByClsact {
		return nil
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		list, err := interfacesOf(n, links)
		if err == nil {
			err = n.Do(func() error { return n.claimQdiscs(list) })
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func (n *Node) claimQdiscs(list []Interface) error {
	for i := range n.Ports {
		p := &n.Ports[i]
		found := named(list, p.Name)
		if found == nil || p.OwnQdisc && found.Ifindex == p.Ifindex {
			continue
		}
		lacks, err := system.Port{By: hook.ByClsact, Ifindex: found.Ifindex}.LacksQdisc()
		if err != nil {
			return fmt.Errorf("%s/%s: %w", n.Name, p.Name, err)
		}
		if lacks {
			if found.Ifindex != p.Ifindex {
				n.isNow(p, found.Ifindex)
			}
			p.OwnQdisc = true
		}
	}
	return nil
}

// checkStays refuses a domain that another process takes off.
func checkStays(name string) error {
	c, err := OpenControl(name)
	if err != nil {
		return nil // apply makes it anew
	}
	defer c.Close()
	if c.Lease().IsDetaching() {
		return fmt.Errorf("domain %q %w: finish with «int detach ‹domain› %s»", name, system.ErrDetaching, name)
	}
	return nil
}

// merge makes the next description, and checks it.
func (req *Request) merge(was *Domain) (*Domain, *merger, error) {
	m := &merger{roles: req.Roles, set: req.Settings, links: make(map[uint32][]Interface), reload: make(map[uint32]bool)}
	if was == nil {
		by, err := system.ChooseHook(req.Hook)
		if err != nil {
			return nil, nil, err
		}
		m.next = &Domain{Version: Version, Name: req.Domain, Created: time.Now().UTC().Truncate(time.Second), Hook: by, Options: DefaultOptions(), Via: Here(), Managed: req.Managed}
	} else {
		if err := req.checkManaged(was); err != nil {
			return nil, nil, err
		}
		m.next = was.clone()
		if req.Hook != "" && req.Hook != was.Hook && (req.Hook == hook.ByTCX || req.Hook == hook.ByClsact) {
			return nil, nil, fault.Usage.Errorf("domain %q is attached by %s, not %s: leave ‹hook› out, or detach first", was.Name, was.Hook, req.Hook)
		}
	}
	if req.Options != nil {
		if err := req.Options(&m.next.Options); err != nil {
			return nil, nil, err
		}
	}
	if err := errors.Join(m.next.Options.Check(), m.set.checkEntries(m.next.Options.Mark)); err != nil {
		return nil, nil, err
	}
	if was != nil && was.Options.Mark != m.next.Options.Mark {
		return nil, nil, fault.Usage.Errorf("domain %q marks packets by %v, and those under way would keep their INT: detach first, then attach with ‹mark› %v", was.Name, was.Options.Mark, m.next.Options.Mark)
	}
	if req.Via != nil {
		m.next.Via = *req.Via
	}
	if err := m.add(req.Targets); err != nil {
		return nil, nil, err
	}
	if was != nil && req.Options != nil {
		for i := range m.next.Nodes {
			m.reload[m.next.Nodes[i].Index] = true
		}
	}
	return m.next, m, errors.Join(m.next.checkOthers(), m.next.checkSinks())
}

// checkManaged refuses to change by hand what intents ask for, and the reverse.
func (req *Request) checkManaged(was *Domain) error {
	switch {
	case was.Managed == req.Managed:
		return nil
	case was.Managed:
		return fault.Usage.Errorf("INT domain %q holds what intents ask for: change these («int intent»), or end that first («int stop ‹domain› %s»)", was.Name, was.Name)
	}
	return fault.Usage.Errorf("INT domain %q was attached by hand: detach it («int detach ‹domain› %s»), or manage one of another name", was.Name, was.Name)
}

// Here is the namespace of this process.
func Here() Place {
	own := host.OwnNetns()
	ns, inum, err := host.OpenNetns("/proc/thread-self/ns/net")
	if err == nil {
		ns.Close()
	}
	if err != nil || inum == own.Inum {
		return Place{Name: "host", Spec: "netns:host", Path: own.Path, Inum: own.Inum}
	}
	path := host.NetnsPath(inum)
	return Place{Name: path, Spec: "netns:" + path, Path: path, Inum: inum}
}

// undo makes the kernel what it was before.
func undo(next, was *Domain) error {
	if was == nil {
		return removeAll(next)
	}
	errs := []error{next.restoreOffloads(func(n *Node, p *Port) bool {
		before := was.NodeByIndex(n.Index)
		return before == nil || before.Port(p.Name) == nil || !before.Port(p.Name).NoGSO
	})}
	reload := make(map[uint32]bool)
	for i := range was.Nodes {
		reload[was.Nodes[i].Index] = true
	}
	_, err := apply(next, was, reload, make(map[uint32][]Interface))
	return errors.Join(append(errs, err, was.save())...)
}

// Dial opens the socket that reports are sent by, in the namespace that they are sent from. The caller
// closes it.
func (d *Domain) Dial() (s *send.Sender, err error) {
	err = d.Via.Do(func() (err error) {
		s, err = send.Dial(d.Options.Address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("collector %v, from %s: %w", d.Options.Address, d.Via.Name, err)
	}
	return s, nil
}
