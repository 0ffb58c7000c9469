// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"iter"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/host"
)

// space is a namespace as another one numbers it.
type space struct {
	from uint32
	id   int
}

// numbers finds namespaces by the numbers that others give them. To look at every process takes a while: what was found
// stays known from one look at the domain to the next one, and what was not is looked for again after some looks only.
type numbers struct {
	namespaces func() iter.Seq2[host.NetnsFile, error]
	places     map[space]Place
	looks      int
	missing    map[space]int // the look at which it is looked for again

	// Of this look.
	used  map[space]bool
	all   []host.NetnsFile
	err   error                    // of the search for them
	known map[uint32]map[int]Place // by the number of the namespace that numbers them
}

// searchEvery is after how many looks something is looked for again.
const searchEvery = 10

func newNumbers() *numbers {
	return &numbers{namespaces: host.Namespaces, places: make(map[space]Place), missing: make(map[space]int)}
}

// begin begins a look at the domain.
func (s *numbers) begin() {
	s.looks++
	s.used, s.all, s.err, s.known = make(map[space]bool), nil, nil, make(map[uint32]map[int]Place)
}

// end forgets what nobody has asked for at this look.
func (s *numbers) end() {
	for key := range s.places {
		if !s.used[key] {
			delete(s.places, key)
		}
	}
	for key := range s.missing {
		if !s.used[key] {
			delete(s.missing, key)
		}
	}
	s.all, s.known = nil, nil
}

// other finds the namespace of the other end of a veth. It may be one that cannot be reached.
func (s *numbers) other(p Place, i *Interface) (to Place, ok bool, err error) {
	if i.Peer.NSID < 0 {
		return p, true, nil
	}
	key := space{p.Inum, i.Peer.NSID}
	s.used[key] = true
	if known, ok := s.places[key]; ok && !known.IsGone() {
		return known, true, nil
	}
	if s.looks < s.missing[key] {
		return Place{}, false, nil
	}
	all, err := s.of(p)
	if err != nil {
		return Place{}, false, err
	}
	delete(s.places, key)
	delete(s.missing, key)
	if to, ok = all[key.id]; ok {
		s.places[key] = to
	} else {
		s.missing[key] = s.looks + searchEvery
	}
	return to, ok, nil
}

// of are the namespaces that can be reached, by the numbers that one of them gives them.
func (s *numbers) of(p Place) (map[int]Place, error) {
	if list, ok := s.known[p.Inum]; ok {
		return list, nil
	}
	if s.all == nil && s.err == nil {
		for file, err := range s.namespaces() {
			s.all, s.err = append(s.all, file), err
		}
	}
	if s.err != nil {
		return nil, fmt.Errorf("look for network namespaces: %w", s.err)
	}
	handle, err := p.Handle()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	list := make(map[int]Place)
	for _, file := range s.all {
		id, path, err := numberOf(handle, file)
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("node %s: number of network namespace %s: %w", p.Name, file.Path, err)
		}
		if err == nil && id >= 0 {
			list[id] = Place{Name: filepath.Base(path), Spec: "netns:" + path, Path: path, Inum: file.Inum}
		}
	}
	s.known[p.Inum] = list
	return list, nil
}

// numberOf is the number that the namespace of the handle gives another one, -1 if it gives it none, and where that is.
func numberOf(handle *netlink.Handle, file host.NetnsFile) (id int, path string, err error) {
	path = file.Path
	ns, err := host.SameNetns(path, file.Inum)
	if gone(err) { // the process has ended, and another one may be there
		path = host.NetnsPath(file.Inum)
		ns, err = host.SameNetns(path, file.Inum)
	}
	if err != nil {
		return -1, path, err
	}
	defer ns.Close()
	id, err = handle.GetNetNsIdByFd(int(ns))
	return id, path, err
}

// placeNumbered finds the namespace that another one knows by a number.
func placeNumbered(p Place, id int) (to Place, ok bool, err error) {
	s := newNumbers()
	s.begin()
	return s.other(p, &Interface{Peer: Peer{NSID: id}})
}
