// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/e2e/quiet"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// place is a network namespace in which a test sends, listens and captures.
type place struct {
	t    *testing.T
	name string
	path string // as in /proc/PID/ns/net
	ns   netns.NsHandle
	addr netip.Addr
}

func newPlace(t *testing.T, name, path string, addr netip.Addr) *place {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatalf("open the namespace of %s: %v", name, err)
	}
	t.Cleanup(func() { ns.Close() })
	return &place{t: t, name: name, path: path, ns: ns, addr: addr}
}

// within runs f in the namespace; sockets that it opens stay there.
func (p *place) within(f func() error) {
	p.t.Helper()
	if err := host.InNetns(p.ns, f); err != nil {
		p.t.Fatalf("in %s: %v", p.name, err)
	}
}

// run runs a command in the namespace, which must succeed.
func (p *place) run(command ...string) string {
	p.t.Helper()
	out, err := p.command(command...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("in %s: %s: %v\n%s", p.name, strings.Join(command, " "), err, out)
	}
	return string(out)
}

func (p *place) command(command ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + p.path}, command...)...)
}

// linkAddr is the first IPv4 address of an interface.
func (p *place) linkAddr(link string) netip.Addr {
	p.t.Helper()
	fields := strings.Fields(p.run("ip", "-4", "-o", "address", "show", "dev", link))
	if len(fields) < 4 {
		p.t.Fatalf("%s/%s has no IPv4 address", p.name, link)
	}
	prefix, err := netip.ParsePrefix(fields[3])
	if err != nil {
		p.t.Fatalf("%s/%s: %v", p.name, link, err)
	}
	return prefix.Addr()
}

// sink takes what comes to UDP ports, so that nothing is refused.
func (p *place) sink(ports ...int) {
	p.t.Helper()
	for _, port := range ports {
		p.within(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			p.t.Cleanup(func() { unix.Close(fd) })
			if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
				return fmt.Errorf("take UDP port %d: %w", port, err)
			}
			return nil
		})
	}
}

// observer is what saw packets at a place. stop ends it and returns them, in order.
type observer interface{ stop() ([]packet, error) }

// rawSocket gets every packet of one protocol that the namespace itself receives,
// with its header, as any process would.
type rawSocket struct {
	name string
	fd   int
	quit chan struct{}
	done chan error
	list []packet // owned by receive until done
	got  atomic.Int64
}

func (p *place) listen(proto int) *rawSocket {
	p.t.Helper()
	s := &rawSocket{name: p.name, quit: make(chan struct{}), done: make(chan error, 1)}
	p.within(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		return err
	})
	p.t.Cleanup(func() { unix.Close(s.fd) })
	timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
	err := errors.Join(unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		p.t.Fatalf("set up raw socket in %s: %v", p.name, err)
	}
	go func() { s.done <- s.receive() }()
	return s
}

func (s *rawSocket) receive() error {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(s.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			select {
			case <-s.quit: // and nothing is left in the socket
				return nil
			default:
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("raw socket in %s: %w", s.name, err)
		default:
			if p, ok := parse(bytes.Clone(buf[:n])); ok {
				s.list = append(s.list, p)
				s.got.Add(1)
			}
		}
	}
}

func (s *rawSocket) stop() ([]packet, error) {
	close(s.quit)
	err := <-s.done
	return s.list, err
}

// capture is a running tcpdump.
type capture struct {
	name  string
	file  string
	cmd   *exec.Cmd
	ended chan struct{} // its stderr is at its end
	mu    sync.Mutex
	log   bytes.Buffer
}

// capture starts tcpdump on an interface, and returns when it listens.
func (p *place) capture(link string, filter ...string) *capture {
	p.t.Helper()
	c := &capture{name: p.name + "/" + link, file: filepath.Join(p.t.TempDir(), "capture.pcap"), ended: make(chan struct{})}
	argv := []string{"tcpdump", "-i", link, "-n", "-U", "-B", "131072", "-Z", "root", "-w", c.file}
	c.cmd = p.command(append(argv, filter...)...)
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		p.t.Fatalf("start tcpdump in %s: %v", p.name, err)
	}
	listening := make(chan struct{})
	go c.follow(stderr, sync.OnceFunc(func() { close(listening) }))
	p.t.Cleanup(func() { // does nothing to one that has ended
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = c.cmd.Wait()
	})
	select {
	case <-listening:
	case <-c.ended:
		p.t.Fatalf("tcpdump on %s ended: %s", c.name, c.text())
	case <-time.After(nstest.Patience):
		p.t.Fatalf("tcpdump on %s does not listen: %s", c.name, c.text())
	}
	return c
}

func (c *capture) follow(r io.Reader, listening func()) {
	defer close(c.ended)
	for s := bufio.NewScanner(r); s.Scan(); {
		c.mu.Lock()
		c.log.WriteString(s.Text() + "\n")
		c.mu.Unlock()
		if strings.Contains(s.Text(), "listening on") {
			listening()
		}
	}
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// counted is what tcpdump says of itself, when it ends or is asked.
var counted = regexp.MustCompile(`(\d+) packets? (captured|received by filter|dropped by kernel)`)

// counts are the last ones behind a place of the log.
func (c *capture) counts(from int) map[string]string {
	count := map[string]string{}
	for _, m := range counted.FindAllStringSubmatch(c.text()[from:], -1) {
		count[m[2]] = m[1]
	}
	return count
}

// blockAge is more than the age at which tcpdump gets a block of the kernel's ring that is not
// full.
const blockAge = 3 * time.Second

// drain waits until the file has all that the kernel has captured: tcpdump that is interrupted
// leaves what it has not read yet. On "any" it leaves out what loopback sends, which the
// kernel counts: then it is done if it has slept for so long that it must have got the rest.
func (c *capture) drain() error {
	before, told, since := len(c.text()), "", time.Now()
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := c.cmd.Process.Signal(syscall.SIGUSR1); err != nil { // it tells its counts, and goes on
			return fmt.Errorf("ask tcpdump on %s for its counts: %w", c.name, err)
		}
		count := c.counts(before)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err != nil {
			return err
		}
		if count["captured"] != told || !strings.Contains(string(stat), ") S ") {
			told, since = count["captured"], time.Now()
		}
		if len(count) == 3 && (told == count["received by filter"] || time.Since(since) > blockAge) {
			return nil
		}
	}
	return nil // stop says what is missing
}

// stop ends the capture.
func (c *capture) stop() ([]packet, error) {
	if err := c.drain(); err != nil {
		return nil, err
	}
	before := len(c.text())
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return nil, fmt.Errorf("stop tcpdump on %s: %w", c.name, err)
	}
	<-c.ended
	if err := c.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("tcpdump on %s: %w: %s", c.name, err, c.text())
	}
	if c.counts(before)["dropped by kernel"] != "0" {
		return nil, fmt.Errorf("the capture on %s is not complete: %s", c.name, c.text())
	}
	return readPcap(c.file)
}

// mostLinks is how many links, one behind the other, a packet passes at most.
const mostLinks = 12

// carried returns when no packet waits for a CPU any more.
func carried(t *testing.T) {
	t.Helper()
	barrier, err := quiet.NewBarrier()
	if err != nil {
		t.Fatal(err)
	}
	defer barrier.Close()
	for range mostLinks {
		if err := barrier.Pass(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // what TCP puts off
}

// Where the protocol and the packet are in a capture on one Ethernet interface, and
// in one on "any" (LINKTYPE_LINUX_SLL2).
const (
	ethProto, ethHead   = 12, 14
	sll2Proto, sll2Head = 0, 20
	linkTypeSLL2        = 276
)

// readPcap returns the IPv4 packets of a capture.
func readPcap(file string) ([]packet, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := pcapgo.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	proto, head := ethProto, ethHead
	switch r.LinkType() {
	case layers.LinkTypeEthernet:
	case linkTypeSLL2:
		proto, head = sll2Proto, sll2Head
	default:
		return nil, fmt.Errorf("read %s: link type %v", file, r.LinkType())
	}
	var list []packet
	for {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) > head && b[proto] == 8 && b[proto+1] == 0 { // ETH_P_IP
			if p, ok := parse(b[head:]); ok {
				list = append(list, p)
			}
		}
	}
}
