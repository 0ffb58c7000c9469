// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// hangingPath is under a file system that says nothing: whoever opens it waits until the test ends. Nobody else sees it.
func hangingPath(t *testing.T) string {
	t.Helper()
	need.AsRoot(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		need.Lack(t, need.Kernel, "FUSE")
	}
	must(err)
	t.Cleanup(func() { unix.Close(server) }) // who waits goes on
	fs, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	must(err)
	defer unix.Close(fs)
	for key, value := range map[string]string{"fd": strconv.Itoa(server), "rootmode": "40000", "user_id": "0", "group_id": "0"} {
		must(unix.FsconfigSetString(fs, key, value))
	}
	must(unix.FsconfigCreate(fs))
	mounted, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { unix.Close(mounted) })
	return fmt.Sprintf("/proc/self/fd/%d/ns", mounted)
}

// TestNodesSilent: an answer, and a story, says which nodes did not say what they are now.
func TestNodesSilent(t *testing.T) {
	path := hangingPath(t)
	d := &domain.Domain{Name: nothingAttached(t), Nodes: []domain.Node{{ID: 1, Name: "h1", Path: path, Inum: 1}},
		Ports: []domain.Port{{ID: 1, Node: 1, Name: "e0", Ifindex: 2, Peer: -1}}}
	r := &Ring{&agent.Reader{Domain: d}}
	isSaid := func(notes []Note) bool {
		return slices.ContainsFunc(notes, func(n Note) bool {
			silent, is := n.(note.NodesSilent)
			return is && slices.Equal(silent.NoAnswer, []string{"h1"})
		})
	}

	c := NewCounts(aggregate.New(0), backpack.NewDecoder(d, nil))
	c.Add(&packet.Packet{State: record.Delivered, Segs: 1, Hops: []packet.Hop{{Node: 1}}})
	c.ctx, c.sources = t.Context(), Only(r)
	if notes := c.Remarks(); len(notes) > 0 {
		t.Errorf("no node was asked: %v", notes)
	}
	portsNotUp(c.links(), nil)
	if notes := c.Remarks(); !isSaid(notes) {
		t.Errorf("the rows: %v", notes)
	}
	if notes := c.nodesSilent([]Note{note.NodesSilent{}}); len(notes) != 1 {
		t.Errorf("it is said twice: %v", notes)
	}
	lost := &backpack.Found{Record: record.Record{State: record.Lost, Loss: &record.Loss{Node: "h1", Port: "e0", At: record.AtEgress, Reason: "QDISC_DROP"}}}
	if _, notes, err := r.Stories(t.Context(), []*backpack.Found{lost}, time.Now()); err != nil || !isSaid(notes) {
		t.Errorf("the story: %v, %v", notes, err)
	}
	if notes := r.WhyEmpty(t.Context(), &Selection{}); !isSaid(notes) {
		t.Errorf("why it is empty: %v", notes)
	}
}
