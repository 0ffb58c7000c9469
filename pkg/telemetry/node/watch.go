// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"math"
	"slices"
	"time"
)

// Watcher brings what programs know of interfaces up to date, of one domain. It is for one goroutine.
type Watcher struct {
	tables  map[uint32]*table // by index of nodes
	sent    map[sender]sent
	numbers *numbers
}

type sender struct {
	inum    uint32
	ifindex int
}

type sent struct {
	bytes uint64
	at    time.Time
}

// leastSpan is over how much time at least an interface's sending is measured: looks can follow each other closely.
const leastSpan = 500 * time.Millisecond

// NewWatcher makes one. The caller closes it.
func NewWatcher() *Watcher {
	return &Watcher{make(map[uint32]*table), make(map[sender]sent), newNumbers()}
}

// Close lets go of what it has open.
func (w *Watcher) Close() {
	for index := range w.tables {
		w.forget(index)
	}
}

func (w *Watcher) forget(index uint32) {
	if t := w.tables[index]; t != nil {
		t.close()
		delete(w.tables, index)
	}
}

// Look writes the MTUs of interfaces, and how much they send. changed: ports have come or gone, or have other
// numbers; Refresh is needed.
func (w *Watcher) Look(d *Domain) (changed bool, err error) {
	var errs []error
	links := make(map[uint32][]Interface)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		list, err := Interfaces(n.Place)
		switch {
		case gone(err):
			changed = changed || slices.ContainsFunc(n.Ports, func(p Port) bool { return !p.Gone })
		case err != nil:
			errs = append(errs, err)
		case n.hasMoved(list):
			changed = true
		default:
			links[n.Inum] = list
		}
	}
	other, err := d.clone().lookBehind(newEnds(links, w.numbers), d)
	changed = changed || other
	errs = append(errs, err)
	most, _ := d.narrowest(links)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if list, ok := links[n.Inum]; ok {
			other, err := w.write(d, n, list, most)
			changed = changed || other
			errs = append(errs, err)
		}
	}
	return changed, errors.Join(errs...)
}

// hasMoved reports whether the node's ports are others than those that are described.
func (n *Node) hasMoved(list []Interface) bool {
	for i := range n.Ports {
		p := &n.Ports[i]
		found := named(list, p.Name)
		if (found == nil) != p.Gone || found != nil && found.Ifindex != p.Ifindex {
			return true
		}
	}
	mask, err := maskFor(n, list)
	return err == nil && mask != n.Mask
}

// write writes MTUs and how much is sent. Roles are written by who holds the domain's lock: other says that
// those in the table are not those of d, which may be older than the table.
func (w *Watcher) write(d *Domain, n *Node, list []Interface, most int) (other bool, err error) {
	t := w.tables[n.Index]
	if t != nil && t.mask != n.Mask {
		w.forget(n.Index)
		t = nil
	}
	if t == nil {
		t, err = pinnedTable(d.Name, n.Index)
		if err != nil || t == nil {
			return t == nil && err == nil, err
		}
		w.tables[n.Index] = t
	}
	roles, _ := through(n, list)
	for index := range roles {
		i := numbered(list, index)
		if i == nil {
			continue
		}
		e := entryOf(n, i, roles[index], most)
		if !t.narrow(index, &e) {
			other = true
		}
	}
	now := time.Now()
	for key := range w.sent { // of interfaces that are gone
		if key.inum == n.Inum && numbered(list, key.ifindex) == nil {
			delete(w.sent, key)
		}
	}
	for _, i := range list {
		if p := n.Port(i.Name); p == nil {
			continue
		}
		key := sender{n.Inum, i.Ifindex}
		was, known := w.sent[key]
		took := now.Sub(was.at)
		if known && took < leastSpan {
			continue
		}
		w.sent[key] = sent{i.Sent, now}
		if known && i.Sent >= was.bytes {
			kbits := float64(i.Sent-was.bytes) * 8 / 1000 / took.Seconds()
			t.utilise(i.Ifindex, uint32(math.Min(kbits, unknown-1)))
		}
	}
	return other, nil
}

// Refresh attaches ports that have come back, and forgets those that are gone.
func Refresh(name string) (d *Domain, warnings []string, err error) {
	unlock, err := Lock(name)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	was, err := Load(name)
	if err != nil {
		return nil, nil, err
	}
	if err := checkStays(name); err != nil {
		return nil, nil, err
	}
	next, links := was.clone(), make(map[uint32][]Interface)
	warnings, err = apply(was, next, make(map[uint32]bool), links)
	if err == nil {
		err = next.switchOffloads(links)
	}
	return next, warnings, errors.Join(err, next.save())
}
