// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
)

// collectorView is what became of the reports for one collector.
type collectorView struct {
	Collector string            `json:"collector"`
	Address   string            `json:"address"`
	Sent      uint64            `json:"sent"`    // the kernel took them
	Refused   uint64            `json:"refused"` // answers that nobody listens there
	Failed    uint64            `json:"failed"`  // the kernel did not take them
	Errors    map[string]uint64 `json:"errors,omitempty"`
}

// sender sends to one collector. It never waits for the socket.
type sender struct {
	collectorView
	to, from netip.AddrPort
	conn     *net.UDPConn
	raw      syscall.RawConn
}

// newSenders opens a socket for each collector.
func newSenders(ctx context.Context, collectors []string) (list []*sender, err error) {
	defer func() {
		if err != nil {
			closeSenders(list)
		}
	}()
	for _, text := range collectors {
		to, err := resolveCollector(ctx, text)
		if err != nil {
			return list, err
		}
		for _, other := range list {
			if other.to == to {
				return list, fault.Usage.Errorf("--collector %s: twice (%v)", text, to)
			}
		}
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return list, fmt.Errorf("collector %s: %w", text, err)
		}
		s := &sender{to: to, conn: conn, collectorView: collectorView{Collector: text, Address: to.String()}}
		list = append(list, s)
		local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
		s.from = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
		if s.raw, err = conn.SyscallConn(); err != nil {
			return list, fmt.Errorf("collector %s: %w", text, err)
		}
	}
	return list, nil
}

func closeSenders(list []*sender) {
	for _, s := range list {
		s.conn.Close()
	}
}

// resolveCollector finds the address of HOST:PORT; of a name with several the first.
func resolveCollector(ctx context.Context, text string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(text)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || numberErr != nil || number == 0 {
		return netip.AddrPort{}, fault.Usage.Errorf("--collector %q: use HOST:PORT or [IPV6]:PORT, the port 1 to 65535", text)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("collector %s: %w", text, err)
		}
		addr = found[0]
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.AddrPort{}, fault.Usage.Errorf("--collector %s: %v is not the address of one machine", text, addr)
	}
	return netip.AddrPortFrom(addr, uint16(number)), nil
}

// send sends a report, or counts why not.
func (s *sender) send(b []byte) {
	err := s.write(b)
	for errors.Is(err, unix.ECONNREFUSED) {
		// The answer to an earlier report (at most one waits for each): this one has not been sent yet.
		s.Refused++
		err = s.write(b)
	}
	if err == nil {
		s.Sent++
		return
	}
	s.Failed++
	if s.Errors == nil {
		s.Errors = make(map[string]uint64)
	}
	s.Errors[err.Error()]++
}

// write does not wait: what a full socket does not take fails (EAGAIN).
func (s *sender) write(b []byte) error {
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		_, failed = unix.Write(int(fd), b)
		for errors.Is(failed, unix.EINTR) {
			_, failed = unix.Write(int(fd), b)
		}
		return true
	})
	return errors.Join(err, failed)
}

// isOwn says whether a packet is for the collector, or is ICMP's answer of its machine to such a
// packet: a report about those would beget the next one.
func (s *sender) isOwn(r *record.Record) bool {
	to := s.to.Addr().WithZone("").String()
	if r.Proto == "udp" {
		return r.Dport != nil && *r.Dport == int(s.to.Port()) && r.Dst == to
	}
	isError := (r.Proto == "icmp" || r.Proto == "icmpv6") && r.ICMPID == nil
	return isError && r.Src == to && r.Dst == s.from.Addr().WithZone("").String()
}

// pacer spaces reports; the zero value does not.
type pacer struct {
	gap  time.Duration
	next time.Time
}

// newPacer makes one for so many a second; 0: no limit.
func newPacer(rate kit.Count) pacer {
	if rate == 0 {
		return pacer{}
	}
	return pacer{gap: time.Second / time.Duration(rate)}
}

// leastWait is what a sleep is worth: reports that are due sooner go together.
const leastWait = time.Millisecond

// wait waits until the next report may go, and says whether ctx still lives.
func (p *pacer) wait(ctx context.Context) bool {
	if p.gap == 0 {
		return true
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	if ahead := p.next.Sub(now); ahead >= leastWait && !kit.Wait(ctx, ahead) {
		return false
	}
	p.next = p.next.Add(p.gap)
	return ctx.Err() == nil
}
