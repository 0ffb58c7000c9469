// SPDX-License-Identifier: Apache-2.0

package quiet

import (
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// flood sends bursts to a port that nobody reads.
func flood(t *testing.T, fd int, stop chan struct{}) {
	b, err := NewBarrier()
	if err != nil {
		t.Error(err)
		return
	}
	defer b.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		for range 200 {
			unix.Sendto(fd, make([]byte, 1000), 0, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 2}, Port: 9})
		}
		if err := b.Pass(); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestBarrier: what was sent over a veth before a barrier has come when it returns, each
// time, though others send as well.
func TestBarrier(t *testing.T) {
	need.AsRoot(t)
	n := nstest.New(t, "a", "b")
	n.Veth("a", "eth0", "b", "eth0")
	n.Address("a", "eth0", "10.0.0.1/24")
	n.Address("b", "eth0", "10.0.0.2/24")
	var from, to int
	open := func(node string, fd *int) {
		ns, err := netns.GetFromPath(n.Path(node))
		if err == nil {
			err = host.InNetns(ns, func() (err error) {
				*fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				return err
			})
			ns.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(*fd) })
	}
	open("a", &from)
	open("b", &to)
	var sink int
	open("b", &sink)
	for fd, port := range map[int]int{to: 7, sink: 9} {
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := NewBarrier()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	// Others keep the kernel's own threads busy, which then carry our packets, too. They must
	// not fill the queue: what does not fit is dropped.
	var others sync.WaitGroup
	defer others.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		others.Go(func() { flood(t, from, stop) })
	}
	send := func() {
		if err := unix.Sendto(from, []byte("x"), 0, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 2}, Port: 7}); err != nil {
			t.Fatal(err)
		}
	}
	got := func() int {
		n := 0
		for {
			if _, err := unix.Read(to, make([]byte, 8)); err != nil {
				return n
			}
			n++
		}
	}
	send()
	nstest.WaitFor(t, "the first packet, behind ARP", func() bool { return got() == 1 })
	start := time.Now()
	for i := range 300 {
		for range 20 {
			send()
		}
		if err := b.Pass(); err != nil {
			t.Fatal(err)
		}
		if n := got(); n != 20 {
			t.Fatalf("round %d: %d of 20 packets have come", i, n)
		}
	}
	t.Logf("%v each", time.Since(start)/300)
}
