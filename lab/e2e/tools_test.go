// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ping sends echo requests, one every two milliseconds.
func (n *network) ping(t *testing.T, from, to string, count, size int) {
	t.Helper()
	n.run(t, from, "ping", "-q", "-n", "-i", "0.002", "-c", fmt.Sprint(count), "-s", fmt.Sprint(size), n.addr(t, to).String())
}

// iperf sends TCP with whatever offloads the devices have: "-n 8M", "-R", ...
func (n *network) iperf(t *testing.T, from, to string, args ...string) {
	t.Helper()
	server := n.lab.Command(n.ctx, to, "iperf3", "-s", "-1", "--forceflush")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("start iperf3 server: %v", err)
	}
	defer func() {
		server.Process.Kill() // it has ended if all went well
		server.Wait()
	}()
	listening := make(chan bool, 1)
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			if strings.Contains(s.Text(), "listening") {
				listening <- true
			}
		}
		close(listening)
	}()
	select {
	case ok := <-listening:
		if !ok {
			t.Fatal("iperf3 server ended")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("iperf3 server does not listen")
	}
	argv := append([]string{"iperf3", "-c", n.addr(t, to).String()}, args...)
	n.run(t, from, argv...)
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
