// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
)

// throughput measures what gets through h1 - r1 - h2 when the sender sends what it can:
// TCP with trains, and UDP whose datagrams fill a frame.
func throughput(ctx context.Context, o *options) ([]result.Table, error) {
	rounds, long := o.pick(2*o.rounds, 1), time.Second
	if o.short {
		long = 200 * time.Millisecond
	}
	u, err := newLineup(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer u.close()

	kinds := []struct {
		name    string
		unit    string
		measure func(context.Context, *network.Network, time.Duration) (float64, error)
	}{{"TCP", result.Gbits, saturateTCP}, {"UDP of 1400 bytes", result.Kpps, saturateUDP}}
	rates := make([][][]float64, len(kinds)) // by kind, neighbour, round
	for i := range rates {
		rates[i] = make([][]float64, len(u.list))
	}
	unseen := 0.0
	err = u.inTurn(ctx, o, rounds, []int{len(u.Nodes) - 1}, func(k, _ int) error {
		for i, kind := range kinds {
			rate, err := kind.measure(ctx, u.Network, long)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			rates[i][k] = append(rates[i][k], rate)
		}
		if u.list[k].name != builtIn().name {
			return nil
		}
		s, err := u.radar.status(ctx)
		if s.Totals.Seen > 0 {
			unseen = max(unseen, 100*float64(s.Totals.NotMeasured+s.Totals.Unread)/float64(s.Totals.Seen))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t := result.Table{Columns: []string{""}}
	for _, nb := range u.list {
		t.Columns = append(t.Columns, nb.name)
	}
	for i, kind := range kinds {
		var rate []*result.Figure
		ratio := []*result.Figure{nil}
		for k := range u.list {
			rate = append(rate, result.Of(kind.unit, rates[i][k]))
			if k > 0 {
				ratio = append(ratio, result.Of(result.Times, result.Ratios(rates[i][k], rates[i][0])))
			}
		}
		t.Add(kind.name+", "+kind.unit, rate...)
		t.Add(kind.name+", of none's", ratio...)
	}
	t.Note("%d rounds of %v each. Of the packets that radar saw at most %.2f %% in a round were not measured or not read in time.", rounds, long, unseen)
	t.Notes = append(t.Notes, u.notes...)
	return []result.Table{t}, nil
}

// poll is how long blocking calls wait, so that they see that time is up.
const poll = 50 * time.Millisecond

// saturateTCP returns Gbit/s of payload that arrive.
func saturateTCP(ctx context.Context, n *network.Network, long time.Duration) (float64, error) {
	bits, _, err := sendTCP(ctx, n, 0, long)
	return bits / 1e9, err
}

// sendTCP returns the bit/s of payload that arrive, of so many that are sent (0: what TCP can), and how many segments
// there were.
func sendTCP(ctx context.Context, n *network.Network, bitrate float64, long time.Duration) (bits float64, segments uint64, err error) {
	s, err := dialStream(n, 0, len(n.Nodes)-1, sockaddr(network.Addr4(0, len(n.Nodes)-2, 2), tcpPort))
	if err != nil {
		return 0, 0, err
	}
	defer s.close()
	for _, fd := range []int{s.send, s.receive} {
		if err := blocking(fd); err != nil {
			return 0, 0, err
		}
	}
	out, in := make([]byte, 1<<17), make([]byte, 1<<18)
	arrived, took, err := saturate(ctx, long,
		paced(bitrate/8/float64(len(out)), func() error { _, err := unix.Write(s.send, out); return err }),
		func() (int, error) { return unix.Read(s.receive, in) })
	if err != nil {
		return 0, 0, err
	}
	segments, err = s.segments()
	return float64(arrived) * 8 / took.Seconds(), segments, err
}

// blocking makes calls on a socket wait, but not for long.
func blocking(fd int) error {
	wait := unix.NsecToTimeval(int64(poll))
	return errors.Join(unix.SetNonblock(fd, false),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait))
}

// saturateUDP returns the thousands of datagrams a second that arrive.
func saturateUDP(ctx context.Context, n *network.Network, long time.Duration) (float64, error) {
	const size = 1400
	bytes, err := sendUDP(ctx, n, len(n.Nodes)-1, size, 0, long)
	return bytes / size / 1e3, err
}

// sendUDP returns the bytes a second of datagrams of one size that arrive at a node, of so many that are sent a second;
// 0: what the sender can.
func sendUDP(ctx context.Context, n *network.Network, last, size int, perSecond float64, long time.Duration) (float64, error) {
	to := sockaddr(network.Addr4(0, last-1, 2), udpPort)
	open := func(node int, use func(int) error) (fd int, err error) {
		err = n.In(node, func() error {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<22), blocking(fd), use(fd))
		})
		return fd, err
	}
	receive, err := open(last, func(fd int) error { return unix.Bind(fd, to) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(receive)
	send, err := open(0, func(fd int) error { return unix.Connect(fd, to) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(send)
	out, in := make([]byte, size), make([]byte, 1<<11)
	arrived, took, err := saturate(ctx, long,
		paced(perSecond, func() error { _, err := unix.Write(send, out); return err }),
		func() (int, error) { return unix.Read(receive, in) })
	return float64(arrived) / took.Seconds(), err
}

// paced is send, so many times a second; 0: as it is. What could not be sent for a while is not made up for in one burst.
func paced(perSecond float64, send func() error) func() error {
	if perSecond == 0 {
		return send
	}
	start, sent := time.Now(), 0.0
	return func() error {
		due := time.Since(start).Seconds() * perSecond
		if sent >= due {
			time.Sleep(time.Millisecond / 2)
			return nil
		}
		sent = max(sent+1, due-perSecond/50)
		return send()
	}
}

// saturate calls send on one thread and receive on another, and returns the bytes that
// were received, but for those of the first tenth.
func saturate(ctx context.Context, long time.Duration, send func() error, receive func() (int, error)) (arrived int64, took time.Duration, err error) {
	var total atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	until := func(call func() error) {
		ended <- network.OnThread(func() error {
			for ctx.Err() == nil {
				switch err := call(); err {
				case nil, unix.EAGAIN, unix.EINTR, unix.ENOBUFS:
				default:
					return err
				}
			}
			return nil
		})
	}
	go until(func() error {
		n, err := receive()
		total.Add(int64(max(n, 0)))
		return err
	})
	go until(send)
	sleep(ctx, long/10)
	start, before := time.Now(), total.Load()
	sleep(ctx, long)
	took, arrived = time.Since(start), total.Load()-before
	err = ctx.Err()
	cancel()
	return arrived, took, errors.Join(err, <-ended, <-ended)
}

// sleep until the time or ctx is up.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
