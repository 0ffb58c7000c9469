// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host"
)

// newSpace makes a network namespace that is there until its file is closed, or the test ends.
func newSpace(t testing.TB) (Place, *os.File) {
	t.Helper()
	need.AsRoot(t)
	var file *os.File
	if err := host.InNewNetns(func() (err error) {
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	p := Place{Name: "other", Path: fmt.Sprintf("/proc/self/fd/%d", file.Fd())}
	ns, inum, err := host.OpenNetns(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	ns.Close()
	p.Inum = inum
	return p, file
}

// TestLookFails: a port of which the other end cannot be looked at stays what it was, and a new one is closed.
func TestLookFails(t *testing.T) {
	other, _ := newSpace(t)
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		was, want string // Closed; "-": it was not there
		fails     bool
	}{
		"closed stays closed":      {"other/h0", "other/h0", true},
		"open stays open":          {"", "", true},
		"new":                      {"-", NotLooked, true},
		"it works again":           {NotLooked, "other/h0", false},
		"a node there, and a host": {"", "other/h0", false},
	} {
		m, p := mergerOf(veths(2))
		m.roles = Inside
		if err := m.add([]Target{{Place: p, Port: "e0"}}); err != nil {
			t.Fatal(err)
		}
		d := m.next
		is := &d.Nodes[0].Ports[0]
		was := d.clone()
		was.Nodes[0].Ports[0].Closed = c.was
		if c.was == "-" {
			was = nil
		} else {
			is.Closed = c.was
		}
		m.links[p.Inum][1].Peer = Peer{7, 3}
		n := newNumbers()
		n.places[space{p.Inum, 3}], n.places[space{p.Inum, 4}] = other, other
		e := newEnds(m.links, n)
		e.read = func(Place) ([]Interface, error) {
			list := []Interface{{Name: "h0", Ifindex: 7, Kind: "veth"}}
			if c.fails {
				return list[:0], refused
			}
			return list, nil
		}
		before := is.Closed
		changed, err := d.lookBehind(e, was)
		if is.Closed != c.want || is.Unseen || changed != (before != c.want) {
			t.Errorf("%s: closed %q, want %q; unseen %v, changed %v", name, is.Closed, c.want, is.Unseen, changed)
		}
		if len(n.places) != 1 {
			t.Errorf("%s: a number that nobody asks for stays known: %v", name, n.places)
		}
		if errors.Is(err, refused) != c.fails || c.fails && !strings.Contains(err.Error(), "n/e0") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestNodeNotRead: of a node whose interfaces could not be read nothing changes.
func TestNodeNotRead(t *testing.T) {
	p := Here()
	d := &Domain{Name: "t", Nodes: []Node{{Place: p, Ports: []Port{{Name: "e0", Ifindex: 2, Flags: Inside, Closed: "h/e0"}}}}}
	changed, err := d.lookBehind(newEnds(map[uint32][]Interface{}, newNumbers()), d.clone())
	if changed || err != nil || d.Nodes[0].Ports[0].Closed != "h/e0" {
		t.Errorf("changed %v, %v: %+v", changed, err, d.Nodes[0].Ports[0])
	}
}

// searched are numbers that count how often all namespaces are looked at.
type searched struct {
	*numbers
	list  []host.NetnsFile
	err   error
	count int
}

func newSearched(list ...host.NetnsFile) *searched {
	s := &searched{numbers: newNumbers(), list: list}
	s.namespaces = func() iter.Seq2[host.NetnsFile, error] {
		return func(yield func(host.NetnsFile, error) bool) {
			s.count++
			for _, file := range s.list {
				if !yield(file, nil) {
					return
				}
			}
			if s.err != nil {
				yield(host.NetnsFile{}, s.err)
			}
		}
	}
	return s
}

// look asks for namespaces by their numbers, and wants as many searches.
func (s *searched) look(t *testing.T, when string, from Place, searches int, want map[int]bool) {
	t.Helper()
	s.begin()
	before := s.count
	for id, there := range want {
		if _, ok, err := s.other(from, &Interface{Peer: Peer{1, id}}); ok != there || !errors.Is(err, s.err) {
			t.Errorf("%s: number %d found %v, %v", when, id, ok, err)
		}
	}
	s.end()
	if n := s.count - before; n != searches {
		t.Errorf("%s: %d searches, want %d", when, n, searches)
	}
}

// TestNumbers: all namespaces are looked at once for a whole look at the domain, and for what is not there after some looks
// again. What nobody asks for is forgotten.
func TestNumbers(t *testing.T) {
	from, _ := newSpace(t)
	to, file := newSpace(t)
	if err := from.Do(func() error { return netlink.SetNetNsIdByFd(int(file.Fd()), 5) }); err != nil {
		t.Fatal(err)
	}
	s := newSearched(host.NetnsFile{Path: to.Path, Inum: to.Inum})
	all := map[int]bool{5: true, 8: false, 9: false}
	s.err = errors.New("no more files")
	s.look(t, "a search that fails", from, 1, map[int]bool{5: false, 8: false, 9: false})
	s.err = nil
	s.look(t, "the first look", from, 1, all)
	for range searchEvery - 1 {
		s.look(t, "a look soon after", from, 0, all)
	}
	s.look(t, "a look later", from, 1, all)
	if len(s.places) != 1 || s.places[space{from.Inum, 5}].Inum != to.Inum || len(s.missing) != 2 {
		t.Errorf("known: %v, missing: %v", s.places, s.missing)
	}
	s.list = nil
	file.Close()
	s.look(t, "it is gone", from, 1, map[int]bool{5: false})
	if len(s.places) != 0 || len(s.missing) != 1 {
		t.Errorf("known: %v, missing: %v", s.places, s.missing)
	}
	s.look(t, "nobody asks", from, 0, nil)
	if len(s.missing) != 0 {
		t.Errorf("missing: %v", s.missing)
	}
}

// BenchmarkLook is a look at a node with a port to each of 20 other namespaces, half of which cannot be reached, among 200
// processes.
func BenchmarkLook(b *testing.B) {
	node, _ := newSpace(b)
	node.Name = "n"
	d := &Domain{Name: "bench", Options: DefaultOptions(), Nodes: []Node{{Place: node, Mask: maskLeast}}}
	n := &d.Nodes[0]
	sleep := func() {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	for i := range 20 {
		other, file := newSpace(b)
		if i%2 == 0 {
			if err := other.Do(func() error { sleep(); return nil }); err != nil {
				b.Fatal(err)
			}
		}
		name := fmt.Sprintf("e%d", i)
		if err := node.Do(func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "h0", PeerNamespace: netlink.NsFd(file.Fd())})
		}); err != nil {
			b.Fatal(err)
		}
	}
	for range 190 {
		sleep()
	}
	list, err := Interfaces(node)
	if err != nil {
		b.Fatal(err)
	}
	for _, i := range list {
		if i.Kind == "veth" {
			n.Ports = append(n.Ports, Port{Name: i.Name, Ifindex: i.Ifindex, Flags: Inside})
		}
	}
	w := NewWatcher()
	defer w.Close()
	for b.Loop() {
		if _, err := w.Look(d); err != nil {
			b.Fatal(err)
		}
	}
}
