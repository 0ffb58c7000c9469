// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// connection is a way to a collector that takes the connection, and listens no more.
func connection(t *testing.T, patient bool) (*tcpWay, net.Conn) {
	t.Helper()
	address := servers.Free(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := newTCPWay(t.Context(), "c", netip.MustParseAddrPort(address), patient)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() { _ = opened.close(true); conn.Close() })
	return opened.(*tcpWay), conn
}

// A collector that ends the connection is seen to do so before anything more is sent.
func TestCollectorEnds(t *testing.T) {
	w, conn := connection(t, false)
	w.send([]byte("one"), 1)
	conn.Close()
	nstest.WaitFor(t, "the end to be seen", func() bool { return w.renew() || w.conn == nil })
	w.send([]byte("two"), 1)
	if c := w.counts(); c.Sent != 1 || c.Lost != 1 || c.Errors[errGone.Error()] != 1 {
		t.Errorf("%+v", c)
	}
}

// A machine that does not answer holds up no packet: connecting goes on behind.
func TestSilentHost(t *testing.T) {
	w, conn := connection(t, false)
	silent(t, w.to)
	conn.Close()
	nstest.WaitFor(t, "the end to be seen", func() bool { return w.renew() || w.conn == nil })
	for range 10 {
		w.send([]byte("lost"), 1)
	}
	failed := uint64(0)
	for _, n := range w.Errors {
		failed += n
	}
	if w.Lost != 10 || failed > 5 {
		t.Errorf("%d messages lost, each waited for a try of its own: %v", w.Lost, w.Errors)
	}
}

// silent makes a port that answers nobody: more wait there than may.
func silent(t *testing.T, at netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "nobody to be answered", func() bool {
		conn, err := net.DialTimeout("tcp", at.String(), 300*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return err != nil
	})
}

// What there is waits for a collector that has gone, once; that it does not come again is an error.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	w, conn := connection(t, true)
	conn.Close()
	for range 3 {
		<-w.gone
		w.send([]byte("lost"), 1)
	}
	if c := w.counts(); c.Lost != 3 || c.Errors["connect: connection refused"] != historyTries {
		t.Errorf("%+v", c)
	}
	if err := w.failure(); err == nil || err.Error() != "c was gone, and did not come again" {
		t.Error(err)
	}
}

// A file is replaced as a whole, also behind a link; a pipe is written as it is.
func TestFileWay(t *testing.T) {
	dir := t.TempDir()
	file, link, lost, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "lost"), filepath.Join(dir, "pipe")
	write := func(path string, whole bool) error {
		w, err := newFileWay(path)
		if err != nil {
			return err
		}
		w.send([]byte("new"), 1)
		return w.close(whole)
	}
	want := func(text string) {
		t.Helper()
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("%d bytes, %v, want %q", len(b), err, text)
		}
	}
	for _, err := range []error{os.WriteFile(file, make([]byte, 1000), 0o600), os.Symlink("file", link), os.Symlink("nothing", lost), unix.Mkfifo(pipe, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := write(link, false); err != nil {
		t.Error(err)
	}
	want(string(make([]byte, 1000)))
	if err := write(link, true); err != nil {
		t.Error(err)
	}
	want("new")
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link is another one: %s, %v", to, err)
	}
	if err := write(lost, true); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	b := make([]byte, 10)
	if err := write(pipe, true); err != nil {
		t.Error(err)
	}
	if n, err := reader.Read(b); err != nil || string(b[:n]) != "new" {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// After Ctrl-C what need not wait for its turn still goes, and nothing else.
func TestPacerEnds(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	p := newPacer(kit.Count(1))
	if !p.wait(ctx) {
		t.Error("nothing was before it")
	}
	if p.wait(ctx) {
		t.Error("it had to wait for a second")
	}
}

// One is one, and two are two.
func TestPlurals(t *testing.T) {
	one := wayCounts{To: "c", Sent: 1, SentFlows: 2, Refused: 1, Reconnects: 1, Lost: 2, LostFlows: 1}
	if got, want := one.line(), "c: 1 message with 2 flow records sent, 1 answer that nobody listens there, connected again 1 time; 2 messages with 1 flow record lost"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	end := flowEnd{feedCounts: feedCounts{Own: 1, Unread: 2}, Interrupted: 1, Collector: &one}
	end.Packets, end.Bytes, end.Flows, end.Evicted = 2, 1, 1, 2
	want := []string{"2 packets, 1 byte, in 1 flow record", one.line(), "1 flow record not sent: waiting for --rate at the end", "2 flow records ended for lack of room (--flows)",
		"1 packet not exported: to the collector, or its answers", "2 packets at most, overwritten before being read (attach with more --slots)"}
	if got := end.lines(); !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
	end = flowEnd{feedCounts: feedCounts{Unread: 1}, Collector: &one}
	if got := end.lines(); !slices.Contains(got, "1 packet at most, overwritten before being read (attach with more --slots)") {
		t.Errorf("said %q", got)
	}
}

// What is refused over UDP is lost, and if that is all, the export has failed. A collector that goes away has taken
// what came before.
func TestNobodyListens(t *testing.T) {
	address := netip.MustParseAddrPort(servers.Free(t))
	open := func() *udpWay {
		w, err := newUDPWay("c", address, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.close(true) })
		return w.(*udpWay)
	}
	for _, n := range []uint64{1, 3} {
		for _, late := range []time.Duration{0, answerWithin + 100*time.Millisecond} {
			w := open()
			for range n {
				w.send([]byte("message"), 2)
			}
			time.Sleep(late)
			if err := w.failure(); err == nil || !strings.Contains(err.Error(), "nobody listens at c by UDP") {
				t.Error(err)
			}
			if c := w.counts(); c.Sent+c.SentFlows != 0 || c.Lost != n || c.LostFlows != 2*n || c.Refused != n {
				t.Errorf("%+v, want all %d lost", c, n)
			}
		}
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
	if err != nil {
		t.Fatal(err)
	}
	w := open()
	w.send([]byte("taken"), 1)
	conn.Close()
	w.send([]byte("refused"), 2)
	w.send([]byte("refused"), 4)
	if err := w.failure(); err != nil {
		t.Error(err)
	}
	if c := w.counts(); c.Sent != 1 || c.SentFlows != 1 || c.Lost != 2 || c.LostFlows != 6 || c.Refused != 2 {
		t.Errorf("%+v", c)
	}
}

// twoHosts are a, 10.9.0.1, and b, 10.9.0.2, on one link.
func twoHosts(t *testing.T) *nstest.Net {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	for name, address := range map[string]string{"a": "10.9.0.1/24", "b": "10.9.0.2/24"} {
		n.Up(name, "e0")
		n.Address(name, "e0", address)
	}
	return n
}

func inside(t *testing.T, n *nstest.Net, node string, f func() error) {
	t.Helper()
	spec, err := topo.ParseSpec(n.Spec(node))
	if err == nil {
		err = spec.Do(f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openUDP opens a way to a collector from a.
func openUDP(t *testing.T, n *nstest.Net, to netip.AddrPort) (w *udpWay) {
	t.Helper()
	inside(t, n, "a", func() error {
		opened, err := newUDPWay("c", to, 0)
		if err == nil {
			w = opened.(*udpWay)
			t.Cleanup(func() { _ = w.close(true) })
		}
		return err
	})
	return w
}

// A firewall's answer is an error of the message, and not lost itself.
func TestProhibited(t *testing.T) {
	n := twoHosts(t)
	n.Run("b", "nft", "add table ip t; add chain ip t c { type filter hook input priority 0; }; add rule ip t c udp dport 4739 reject with icmp admin-prohibited")
	w := openUDP(t, n, netip.MustParseAddrPort("10.9.0.2:4739"))
	w.send([]byte("message"), 2)
	if err := w.failure(); err == nil || !strings.Contains(err.Error(), "took no flow record") {
		t.Error(err)
	}
	if c := w.counts(); c.Refused != 0 || c.Sent+c.SentFlows != 0 || c.Lost != 1 || c.LostFlows != 2 || !strings.Contains(c.line(), "1 message with 2 flow records lost (no route to host 1)") {
		t.Errorf("%+v", c)
	}
}

// A host answers another network namespace only so often. What nobody has taken is lost all the same; where a collector
// has come meanwhile, no answer comes either.
func TestAnswersLimited(t *testing.T) {
	n := twoHosts(t)
	address := netip.MustParseAddrPort("10.9.0.2:4739")
	open := func() *udpWay { return openUDP(t, n, address) }
	const messages = 50
	w := open()
	for range messages {
		w.send([]byte("message"), 2)
	}
	if err := w.failure(); err == nil || !strings.Contains(err.Error(), "nobody listens at c by UDP") {
		t.Error(err)
	}
	if c := w.counts(); c.Refused == 0 || c.Refused == messages || c.Sent+c.SentFlows != 0 || c.Lost != messages || c.LostFlows != 2*messages {
		t.Errorf("%+v, want all %d lost, and fewer answers", c, messages)
	}
	time.Sleep(answerEvery) // an answer may be given again
	w = open()
	w.send([]byte("refused"), 1)
	var conn net.PacketConn
	inside(t, n, "b", func() (err error) {
		conn, err = net.ListenPacket("udp", address.String())
		return err
	})
	defer conn.Close()
	time.Sleep(answerEvery)
	w.send([]byte("taken"), 2)
	if err := w.failure(); err != nil {
		t.Error(err)
	}
	if c := w.counts(); c.Refused != 1 || c.Sent != 1 || c.SentFlows != 2 || c.Lost != 1 || c.LostFlows != 1 {
		t.Errorf("%+v", c)
	}
}
