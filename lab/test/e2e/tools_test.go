// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// ping sends echo requests, one every two milliseconds.
func (n *network) ping(t *testing.T, from, to string, count, size int) {
	t.Helper()
	n.run(t, from, "ping", "-q", "-n", "-i", "0.002", "-c", fmt.Sprint(count), "-s", fmt.Sprint(size), n.addr(t, to).String())
}

// iperf sends TCP with whatever offloads the devices have: "-n 8M", "-R", ...
func (n *network) iperf(t *testing.T, from, to string, args ...string) {
	t.Helper()
	n.iperfTo(t, from, to, n.addr(t, to), args...)
}

// iperfTo is iperf to one of the node's addresses.
func (n *network) iperfTo(t *testing.T, from, to string, addr netip.Addr, args ...string) {
	t.Helper()
	stop := n.iperfServer(t, to)
	defer stop()
	n.run(t, from, append([]string{"iperf3", "-c", addr.String()}, args...)...)
}

// iperfForever sends TCP until the function that it returns is called.
func (n *network) iperfForever(t *testing.T, from, to string, args ...string) (stop func()) {
	t.Helper()
	stopServer := n.iperfServer(t, to)
	argv := append([]string{"iperf3", "-t", "0", "-c", n.addr(t, to).String()}, args...)
	client := n.lab.Command(n.ctx, from, argv...)
	if err := client.Start(); err != nil {
		t.Fatalf("start iperf3 client: %v", err)
	}
	return sync.OnceFunc(func() {
		client.Process.Kill()
		client.Wait()
		stopServer()
	})
}

// iperfServer serves one test. stop may be called when it has ended, too.
func (n *network) iperfServer(t *testing.T, node string) (stop func()) {
	t.Helper()
	stop, _ = startIperfServer(t, node, n.lab.Command(n.ctx, node, "iperf3", "-s", "-1", "--forceflush"))
	return stop
}

// startIperfServer returns when it listens; ended is closed when it has served its test.
func startIperfServer(t *testing.T, node string, server *exec.Cmd) (stop func(), ended chan struct{}) {
	t.Helper()
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("start iperf3 server: %v", err)
	}
	listening := make(chan struct{})
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		once := sync.OnceFunc(func() { close(listening) })
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.Contains(s.Text(), "listening") {
				once()
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		server.Process.Kill()
		<-ended
		server.Wait()
	})
	t.Cleanup(stop)
	select {
	case <-listening:
	case <-ended:
		t.Fatalf("iperf3 server in %s ended", node)
	case <-time.After(nstest.Patience):
		t.Fatalf("iperf3 server in %s does not listen", node)
	}
	return stop, ended
}

// droppedByQdisc is tc's count of the root qdisc of a port, in skbs.
func (n *network) droppedByQdisc(t *testing.T, node, port string) int64 {
	t.Helper()
	var qdiscs []struct {
		Kind  string `json:"kind"`
		Root  bool   `json:"root"`
		Drops int64  `json:"drops"`
	}
	out := n.run(t, node, "tc", "-json", "-statistics", "qdisc", "show", "dev", port)
	if err := json.Unmarshal([]byte(out), &qdiscs); err != nil {
		t.Fatalf("tc in %s: %v\n%s", node, err, out)
	}
	for _, q := range qdiscs {
		if q.Root {
			return q.Drops
		}
	}
	t.Fatalf("tc in %s: %s has no root qdisc\n%s", node, port, out)
	return 0
}

var nftCounter = regexp.MustCompile(`counter packets (\d+)`)

// droppedByNft is the count of the rule of a table that counts.
func (n *network) droppedByNft(t *testing.T, node, table string) int64 {
	t.Helper()
	out := n.run(t, node, "nft", "list", "table", "ip", table)
	m := nftCounter.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("nft in %s: no counter in table %s\n%s", node, table, out)
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatalf("nft in %s: %v", node, err)
	}
	return v
}
