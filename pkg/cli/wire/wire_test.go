// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/payload"
)

// begin opens a capture.
func begin(t *testing.T, ctx context.Context, k *kit.Kit, path string, ports ...string) *File {
	t.Helper()
	f, err := Open(ctx, k, path, nil, ports, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFIFO: waiting for a reader ends with ctx, and with a reader; a reader that goes is noticed without any traffic.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over, end := context.WithCancel(ctx)
	end()
	if _, err := Open(over, kit.New(nil, io.Discard, io.Discard), path, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("nobody reads: %v", err)
	}
	opened := make(chan *os.File)
	go func() {
		r, err := os.Open(path)
		if err != nil {
			t.Error(err)
		}
		opened <- r
	}()
	f := begin(t, ctx, kit.New(nil, io.Discard, io.Discard), path)
	goes(t, f, <-opened)
}

// TestStdout: the same of standard output.
func TestStdout(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	goes(t, begin(t, context.Background(), kit.New(nil, w, io.Discard), Stdout), r)
}

// goes reads the beginning from r, and closes it.
func goes(t *testing.T, f *File, r *os.File) {
	t.Helper()
	if _, err := io.ReadFull(r, make([]byte, 28)); err != nil || !f.Pipe || f.unread() {
		t.Errorf("pipe %v, read %v, without a reader %v", f.Pipe, err, f.unread())
	}
	polls := 0
	err := f.repeat(context.Background(), func() (bool, error) {
		if polls++; polls == 2 {
			err := r.Close()
			return true, err
		}
		return polls < 10, nil
	})
	if err != nil || polls != 2 {
		t.Errorf("%d polls, %v", polls, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestSecondSignal: the first signal asks, another one kills.
func TestSecondSignal(t *testing.T) {
	const child = "RADAR_TEST_SIGNALS"
	if os.Getenv(child) != "" {
		ctx, stop := untilSignal(context.Background())
		defer stop()
		fmt.Println("waits")
		<-ctx.Done()
		fmt.Println("asked")
		time.Sleep(time.Minute) // as in a write that blocks
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"waits", "asked"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if want == "waits" {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(os.Interrupt) // again and again: it may just be about to let it kill
		select {
		case <-ended:
			if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGINT {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestLastPoll: what has ended when a capture is to end is asked for.
func TestLastPoll(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := begin(t, ctx, kit.New(nil, io.Discard, io.Discard), filepath.Join(t.TempDir(), "x.pcapng"))
	polls := 0
	err := f.repeat(ctx, func() (bool, error) {
		if polls++; polls == 3 {
			cancel()
		}
		return polls < 10, nil
	})
	if err != nil || polls != 4 {
		t.Errorf("%d polls, %v", polls, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestLimit: packets that were not seen at the ports that are asked for do not count.
func TestLimit(t *testing.T) {
	f := begin(t, context.Background(), kit.New(nil, io.Discard, io.Discard), filepath.Join(t.TempDir(), "x.pcapng"), "r1")
	to := limit{file: f, count: 2}
	for _, node := range []string{"h1", "r1", "h1", "h1", "r1", "r1"} {
		r := record.Record{State: record.Delivered, IPVersion: 4, Src: "10.0.0.1", Dst: "10.0.0.2", Proto: "udp", Len: 28, Segs: 1, Hops: []record.Hop{{Node: node, Port: "eth0"}}}
		if err := to.add(&r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Stats().Packets; got != 2 || !to.full() {
		t.Errorf("%d packets, want 2", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestPayloadLines: quiet says only what is missing, and each cause has its own line.
func TestPayloadLines(t *testing.T) {
	n := payload.Counts{Taken: 9, NoIdentity: 1, RingFull: 2, Unreadable: 3, Crowded: 4, Unclaimed: 5}
	for _, c := range []struct {
		stats pcapng.Stats
		n     payload.Counts
		quiet bool
		want  []string
	}{
		{pcapng.Stats{Payload: 9}, payload.Counts{Taken: 9}, false, []string{"payload in 9 frames, missing in 0"}},
		{pcapng.Stats{Payload: 9}, n, true, nil},
		{pcapng.Stats{Payload: 9, NoPayload: 7}, n, true, []string{
			"payload in 9 frames, missing in 7",
			"of the packets at these ports 1 are not measured, or nothing tells which packet they are",
			"of the packets at these ports 2 came while the ring buffer was full",
			"of the packets at these ports 3 could not be read",
			"of the packets at these ports 4 gave way to later ones, as 64 MiB waited for records",
			"of the packets at these ports 5 belong to packets that are not in the capture",
		}},
	} {
		if diff := cmp.Diff(c.want, payloadLines(c.stats, c.n, c.quiet)); diff != "" {
			t.Errorf("quiet %v: %s", c.quiet, diff)
		}
	}
}

// TestPayloadAtDetached: a node that has been detached has no ports to capture payload at, though its packets can be had.
func TestPayloadAtDetached(t *testing.T) {
	d := &domain.Domain{
		Name: "x", Nodes: []domain.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "gone", Removed: true}, {ID: 3, Name: "bare"}},
		Ports: []domain.Port{{ID: 1, Node: 1, Name: "eth0"}, {ID: 2, Node: 2, Name: "eth0", Removed: true}, {ID: 3, Node: 3, Name: "eth0", Removed: true}},
	}
	for _, name := range []string{"gone", "bare", "gone/eth0"} {
		q := &PayloadQuery{Len: 1, At: Ports{"a", name}, flag: "--payload-at"}
		if c, err := q.open(kit.New(nil, io.Discard, io.Discard), d); c != nil || !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Ports{"a", "gone", "bare"}).Check(d); err != nil {
		t.Error(err)
	}
}

// TestPayloadOutsideFrames: payload of ports whose frames are left out is refused.
func TestPayloadOutsideFrames(t *testing.T) {
	for _, c := range []struct {
		at, payload string
		inside      bool
	}{
		{"r2/eth1", "h2/eth0", false}, {"r2", "h2", false}, {"r2", "r2/eth1", true}, {"h2/eth0", "h2", true}, {"", "h2", true}, {"r2 h2/eth0", "h2/eth1", false},
	} {
		f := PayloadFlags{len: 64, at: strings.Fields(c.payload)}
		q, err := f.Query(strings.Fields(c.at))
		if c.inside != (err == nil && q != nil) || !c.inside && !errors.Is(err, fault.Usage) {
			t.Errorf("--at %q --payload-at %q: %v", c.at, c.payload, err)
		}
	}
}
