// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/host/offload"
)

// switchOffloads switches offloads off at ports that are to have none, and at the other end of veths: what
// comes from there is cut into packets there. What was on is in the description before it is off.
func (d *Domain) switchOffloads(links map[uint32][]Interface) error {
	if err := d.restoreOffloads(func(_ *Node, p *Port) bool { return !p.NoGSO }); err != nil {
		return err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for k := range n.Ports {
			p := &n.Ports[k]
			if !p.NoGSO || p.Gone {
				continue
			}
			ends := []Switched{{Place: n.Place, Name: p.Name, Ifindex: p.Ifindex}}
			if it := numbered(links[n.Inum], p.Ifindex); it != nil && it.Kind == "veth" {
				end, ok, err := otherEnd(n.Place, it)
				if err != nil && !gone(err) {
					return fmt.Errorf("switch offloads off at the other end of %s/%s: %w", n.Name, p.Name, err)
				}
				if ok {
					ends = append(ends, end)
				}
			}
			if err := d.switchOff(p, ends); err != nil {
				return fmt.Errorf("switch offloads off at %s/%s: %w", n.Name, p.Name, err)
			}
		}
	}
	return nil
}

// switchOff switches off what is on at these interfaces.
func (d *Domain) switchOff(p *Port, ends []Switched) error {
	for i := range ends {
		end := &ends[i]
		if err := end.Place.Do(func() (err error) {
			end.Features, err = offload.On(end.Name, offload.IsSegments)
			return err
		}); err != nil {
			return err
		}
		if len(end.Features) == 0 || end.isKnown(p) {
			continue
		}
		p.Switched = append(p.Switched, *end)
		if err := d.save(); err != nil {
			return err
		}
		if err := end.Place.Do(func() error { return offload.Set(end.Name, end.Features, false) }); err != nil {
			return err
		}
	}
	return nil
}

// isKnown adds to what is noted of the same interface: somebody may have switched something on since.
func (s *Switched) isKnown(p *Port) bool {
	for i := range p.Switched {
		if k := &p.Switched[i]; k.Place.Inum == s.Place.Inum && k.Ifindex == s.Ifindex {
			return true
		}
	}
	return false
}

// otherEnd finds the other end of a veth. It may be in a namespace that cannot be reached.
func otherEnd(p Place, it *Interface) (s Switched, ok bool, err error) {
	if it.Peer.NSID >= 0 {
		if p, ok, err = placeNumbered(p, it.Peer.NSID); !ok {
			return s, false, err
		}
	}
	list, err := Interfaces(p)
	if err != nil {
		return s, false, err
	}
	end := numbered(list, it.Peer.Ifindex)
	if end == nil {
		return s, false, nil
	}
	return Switched{Place: p, Name: end.Name, Ifindex: end.Ifindex}, true, nil
}

// restoreOffloads switches on again what was on, at the ports that which names.
func (d *Domain) restoreOffloads(which func(*Node, *Port) bool) error {
	var errs []error
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for k := range n.Ports {
			p := &n.Ports[k]
			if len(p.Switched) == 0 || !which(n, p) {
				continue
			}
			for _, s := range p.Switched {
				if err := s.restore(); err != nil {
					errs = append(errs, fmt.Errorf("switch offloads on again at %s/%s: %w", s.Place.Name, s.Name, err))
				}
			}
			p.Switched = nil
		}
	}
	return errors.Join(errs...)
}

// restore leaves an interface alone that is not the one that was switched.
func (s *Switched) restore() error {
	list, err := Interfaces(s.Place)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if it := numbered(list, s.Ifindex); it == nil || it.Name != s.Name {
		return nil
	}
	return s.Place.Do(func() error { return offload.Set(s.Name, s.Features, true) })
}
