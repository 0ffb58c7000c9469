// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// TestReadersBesideWriters: packets from every CPU go round a small ring as fast as they
// can, and as many readers follow it and look through it. Every field of a self probe
// follows from its ports: a record made of two packets is found.
func TestReadersBesideWriters(t *testing.T) {
	need.Nightly(t) // pkg/vnet/backpack has readers beside writers, too
	const slots = 4096
	ctx := lifetime(t)
	net := startNetwork(ctx, t, "chain")
	for port := range selfPorts {
		net.sink(t, "h1", selfPortBase+port)
		net.sink(t, "h2", selfPortBase+port)
	}
	rad := net.attach(t, routers(net.nodes()), "--slots", strconv.Itoa(slots), "--timeout", "1s")
	var flows []*selfFlow
	for cpu := range max(2, runtime.NumCPU()) {
		from, to := "h1", "h2"
		if cpu%2 == 1 {
			from, to = to, from
		}
		flows = append(flows, net.startSelfFlow(t, from, to, 3, 0))
	}

	var readers sync.WaitGroup
	follower, scanner := &probeReader{path: rad.nodes}, &probeReader{path: rad.nodes}
	end := time.Now().Add(time.Duration(times(60)) * time.Second)
	for range max(1, runtime.NumCPU()/2) {
		readers.Go(func() { follower.add(t, rad.follow(t, end)) })
		readers.Go(func() {
			for time.Now().Before(end) {
				out, err := rad.try("packets", "-o", "json", "--last", "0")
				if err != nil {
					t.Error(err)
				}
				scanner.add(t, bytes.NewReader(out))
			}
		})
	}
	readers.Wait()

	report := &oracle.Report{Title: fmt.Sprintf("readers beside writers on %d CPUs, %d slots", runtime.NumCPU(), slots)}
	for _, f := range flows {
		f.finish(t)
		report.Add(f.rowsByKind()...)
	}
	s := rad.settle(t)
	report.Add(follower.row("records, followed"), scanner.row("records, looked through"), s.Totals.row(false))
	keepReport(t, report)
	if !report.OK() {
		t.Errorf("torn records, or packets that differ or are not accounted for, see the table\n%s%s", follower.worst(), scanner.worst())
	}
	if seen := s.Totals.Seen; seen < 20*slots {
		t.Errorf("%d packets in %d slots: the ring did not go round often", seen, slots)
	}
}

// follow runs "radar packets -f" until end, and returns what it prints.
func (r *radar) follow(t *testing.T, end time.Time) io.Reader {
	cmd := exec.CommandContext(r.ctx, r.bin, "packets", "-f", "-o", "json", "--domain", r.domain)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("radar packets -f: %v", err)
		return bytes.NewReader(nil)
	}
	timer := time.AfterFunc(time.Until(end), func() { cmd.Process.Signal(os.Interrupt) })
	t.Cleanup(func() { timer.Stop(); cmd.Process.Kill() })
	return &untilEnd{out, cmd}
}

// untilEnd waits for a command at the end of its output.
type untilEnd struct {
	io.Reader
	cmd *exec.Cmd
}

func (u *untilEnd) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		if failed := u.cmd.Wait(); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// probeReader holds records of self probes against what was sent.
type probeReader struct {
	path            []string // nodes from h1 to h2
	compared, wrong atomic.Int64
	first           atomic.Pointer[string]
}

func (p *probeReader) add(t *testing.T, r io.Reader) {
	for dec := json.NewDecoder(r); ; {
		var rec record.Record
		err := dec.Decode(&rec)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("radar packets: %v", err)
			io.Copy(io.Discard, r) // to its end, where its process is waited for
			return
		}
		if rec.Dport == nil || *rec.Dport < selfPortBase {
			continue
		}
		p.compared.Add(1)
		if what := p.torn(&rec); what != "" {
			p.wrong.Add(1)
			text, _ := json.Marshal(&rec)
			what += ": " + string(text)
			p.first.CompareAndSwap(nil, &what)
		}
	}
}

// torn says what in a record cannot be of the packet with its ports.
func (p *probeReader) torn(r *record.Record) string {
	forth := r.Src == "10.0.1.1"
	want := selfProbe(nil, [4]byte{}, [4]byte{}, uint16(*r.Sport), uint16(*r.Dport), 0)
	path := slices.Clone(p.path)
	if !forth {
		slices.Reverse(path)
	}
	switch {
	case forth && r.Dst != "10.0.4.2" || !forth && (r.Src != "10.0.4.2" || r.Dst != "10.0.1.1"):
		return "addresses"
	case r.IPID != int(binary.BigEndian.Uint16(want[4:])):
		return "IP ID"
	case r.TTL != int(want[8]) || r.DSCP != int(want[1]>>2) || r.ECN != int(want[1]&3):
		return "TTL, DSCP or ECN"
	case r.Len != len(want) || r.Segs != 1:
		return "length"
	case len(r.Hops) == 0 || len(r.Hops) > len(path):
		return "number of hops"
	}
	last := int64(0)
	for i, h := range r.Hops {
		if h.Node != path[i] {
			return "path"
		}
		if h.AtNs != nil && *h.AtNs < last {
			return "order of times"
		}
		if h.AtNs != nil {
			last = *h.AtNs
		}
	}
	if time.Duration(last) > 10*time.Minute { // no machine stands still so long
		return "time"
	}
	return ""
}

func (p *probeReader) row(check string) *oracle.Row {
	return &oracle.Row{Check: check, Compared: int(p.compared.Load()), Wrong: int(p.wrong.Load())}
}

// worst is the first record that was wrong.
func (p *probeReader) worst() string {
	if s := p.first.Load(); s != nil {
		return *s + "\n"
	}
	return ""
}
