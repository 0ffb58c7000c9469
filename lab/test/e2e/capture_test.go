// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
)

// tcpdump is one running capture.
type tcpdump struct {
	node string
	hook bool // nflog instead of the wires
	file string
	cmd  *exec.Cmd

	mu     sync.Mutex
	stderr bytes.Buffer
	ended  chan struct{} // stderr is at its end
}

// captures are all that observe one round.
type captures struct {
	net     *network
	dumps   []*tcpdump
	sockets []*rawSocket
	// twin is a second capture of a node: what does a capture itself take?
	twin *tcpdump
}

const (
	nflogGroup   = 5
	nflogSnaplen = 128 // IP and TCP header at their longest
)

// hookRules log the head of every packet that a node receives, before anything
// else sees it, and of every packet that it sends; of UDP trains everything.
var hookRules = fmt.Sprintf(`table inet oracle {
	chain heads {
		udp dport %d log group %d snaplen 65000 return
		log group %[2]d snaplen %[3]d
	}
	chain in  { type filter hook prerouting priority -450; jump heads; }
	chain out { type filter hook output priority -450; jump heads; }
}`, portTrain, nflogGroup, nflogSnaplen)

// capture starts tcpdump in all nodes, on all ports and on nflog, and a second
// time on the ports of the node named twin, if any. It returns when all listen.
func (n *network) capture(t *testing.T, twin string) *captures {
	t.Helper()
	c := &captures{net: n}
	dir := t.TempDir()
	for _, node := range n.nodes() {
		n.nft(t, node, hookRules)
		c.dumps = append(c.dumps, c.dump(t, dir, node, false), c.dump(t, dir, node, true))
	}
	if twin != "" {
		c.twin = c.dump(t, t.TempDir(), twin, false)
	}
	for _, d := range c.all() {
		if err := d.ready(); err != nil {
			t.Fatalf("tcpdump in %s: %v\n%s", d.node, err, d.log())
		}
	}
	return c
}

// nft feeds rules to nft in a node.
func (n *network) nft(t *testing.T, node, rules string) {
	t.Helper()
	cmd := n.lab.Command(n.ctx, node, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft in %s: %v\n%s", node, err, out)
	}
}

func (c *captures) all() []*tcpdump {
	if c.twin == nil {
		return c.dumps
	}
	return append(slices.Clone(c.dumps), c.twin)
}

func (c *captures) dump(t *testing.T, dir, node string, hook bool) *tcpdump {
	t.Helper()
	d := &tcpdump{node: node, hook: hook, file: filepath.Join(dir, node+".pcap")}
	// No --time-stamp-precision=nano: libpcap then asks for SO_TIMESTAMPNS, and
	// the kernel stamps arriving packets before they wait in the softirq queue.
	argv := []string{"tcpdump", "-i", "any", "-y", "LINUX_SLL2", "-B", "65536"}
	if hook {
		d.file = filepath.Join(dir, node+".nflog.pcap")
		argv = []string{"tcpdump", "-i", fmt.Sprintf("nflog:%d", nflogGroup), "-B", "65536"}
	}
	argv = append(argv, "-n", "-U", "-s", "0", "-Z", "root", "-w", d.file)
	c.net.startDump(t, d, argv)
	return d
}

// startDump starts tcpdump in its node. It is killed at the end of the test at the latest.
// Without an expression in argv: what comes before the kernel has it, and does not match, is
// received and never captured, so that the capture would not look complete (see stop).
func (n *network) startDump(t *testing.T, d *tcpdump, argv []string) {
	t.Helper()
	d.ended = make(chan struct{})
	d.cmd = n.lab.Command(n.ctx, d.node, argv...)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("start tcpdump in %s: %v", d.node, err)
	}
	go d.follow(stderr)
	t.Cleanup(func() { // does nothing to one that has ended
		d.cmd.Process.Kill()
		<-d.ended
		d.cmd.Wait()
	})
}

func (d *tcpdump) follow(r io.Reader) {
	defer close(d.ended)
	s := bufio.NewScanner(r)
	for s.Scan() {
		d.mu.Lock()
		d.stderr.WriteString(s.Text() + "\n")
		d.mu.Unlock()
	}
}

func (d *tcpdump) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stderr.String()
}

func (d *tcpdump) ready() error {
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(d.log(), "listening on") {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("it ended")
		default:
		}
	}
	return errors.New("it does not listen")
}

var tcpdumpCounts = regexp.MustCompile(`(\d+) packets? (captured|received by filter|dropped by kernel)`)

// stop ends the capture and makes sure that it has every packet; that they have all been
// carried is the caller's business (see carried).
func (d *tcpdump) stop() error {
	drained, err := d.drain()
	if err != nil {
		return err
	}
	before := len(d.log())
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("stop tcpdump in %s: %w", d.node, err)
	}
	<-d.ended
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("tcpdump in %s: %w\n%s", d.node, err, d.log())
	}
	count := counts(d.log()[before:])
	switch {
	case len(count) != 3:
		return fmt.Errorf("tcpdump in %s does not say what it captured:\n%s", d.node, d.log())
	case count["dropped by kernel"] > 0 || !drained && count["captured"] != count["received by filter"]:
		return fmt.Errorf("%w: tcpdump in %s has %d of %d packets, %d dropped", errIncomplete, d.node,
			count["captured"], count["received by filter"], count["dropped by kernel"])
	}
	return nil
}

// counts are the last ones that tcpdump has told.
func counts(log string) map[string]int {
	count := map[string]int{}
	for _, m := range tcpdumpCounts.FindAllStringSubmatch(log, -1) {
		count[m[2]], _ = strconv.Atoi(m[1])
	}
	return count
}

// drain waits until the file has what the kernel has captured so far: tcpdump that is
// interrupted leaves what it has not read yet, and that of nflog is in no count. (tcpdump
// gets a block of the kernel's ring when that is full, or about a second old.) If it has had all, what comes after that
// is none of the round's packets, and tcpdump may end before it reads it.
func (d *tcpdump) drain() (drained bool, err error) {
	before := len(d.log())
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if d.hook {
			if drained, err := d.hookDrained(); drained || err != nil {
				return drained, err
			}
			continue
		}
		if count := counts(d.log()[before:]); len(count) == 3 && count["captured"] == count["received by filter"] {
			return true, nil
		}
		if err := d.cmd.Process.Signal(syscall.SIGUSR1); err != nil { // it tells its counts, and goes on
			return false, fmt.Errorf("ask tcpdump in %s for its counts: %w", d.node, err)
		}
	}
	return false, nil // stop says what is missing
}

// hookDrained says whether the kernel holds nothing back to send it together with more, and
// tcpdump waits for more.
func (d *tcpdump) hookDrained() (bool, error) {
	proc := fmt.Sprintf("/proc/%d", d.cmd.Process.Pid)
	groups, err := os.ReadFile(proc + "/net/netfilter/nfnetlink_log")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(groups)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == strconv.Itoa(nflogGroup) && f[2] != "0" {
			return false, nil
		}
	}
	stat, err := os.ReadFile(proc + "/stat")
	return strings.Contains(string(stat), ") S "), err
}

// errIncomplete says that a capture cannot be relied on: repeat the round.
var errIncomplete = errors.New("a capture is not complete")

// stop ends all observers, when they have seen everything.
func (c *captures) stop(t *testing.T) error {
	t.Helper()
	c.net.carried(t)
	dumps := c.all()
	errs := make([]error, len(dumps))
	var ends sync.WaitGroup
	for i, d := range dumps { // each may wait a second for its ring
		ends.Go(func() { errs[i] = d.stop() })
	}
	ends.Wait()
	for _, s := range c.sockets {
		errs = append(errs, s.stop())
	}
	return errors.Join(errs...)
}

// load gives everything that was seen to the oracle.
func (c *captures) load(senders []*sentLog) (*oracle.Truth, error) {
	all, err := oracle.NewCaptures(c.net.topo)
	if err != nil {
		return nil, err
	}
	all.SegmentUDP(portTrain, trainSize)
	for _, d := range c.dumps {
		if err := d.load(all); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(d.file), err)
		}
	}
	for _, s := range c.sockets {
		if err := all.AddSocket(s.node, uint8(s.proto), &s.pcap); err != nil {
			return nil, fmt.Errorf("socket of %s: %w", s.node, err)
		}
	}
	for _, s := range senders {
		if err := all.AddSent(s.node, &s.pcap); err != nil {
			return nil, fmt.Errorf("sender in %s: %w", s.node, err)
		}
	}
	return all.Reconstruct(), nil
}

// observerTime is how long one capture takes for one packet, by the twin.
func (c *captures) observerTime() (time.Duration, error) {
	var files [2]io.Reader
	for i, name := range []string{filepath.Base(c.twin.file), c.twin.file} {
		if i == 0 {
			name = filepath.Join(filepath.Dir(c.dumps[0].file), name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		files[i] = bytes.NewReader(b)
	}
	d, _, err := oracle.ObserverTime(c.net.topo, c.twin.node, files[0], files[1])
	return d, err
}

func (d *tcpdump) load(all *oracle.Captures) error {
	f, err := os.Open(d.file)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.hook {
		return all.AddHook(d.node, bufio.NewReaderSize(f, 1<<20))
	}
	return all.AddWire(d.node, bufio.NewReaderSize(f, 1<<20))
}
