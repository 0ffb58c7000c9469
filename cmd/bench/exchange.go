// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
)

// maxRouters of the chain.
const maxRouters = 10

// exchange measures what ping -f does: an echo goes out when the reply to the one before
// has come. All distances are measured on one chain: an echo to the node behind router N
// passes N of them. The rest of the chain has the same programs, and sees nothing.
func exchange(ctx context.Context, o *options) ([]result.Table, error) {
	echoes, rounds := o.longer(2000, 10_000), o.pick(2*o.rounds, 1)
	distances := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if o.short {
		echoes, distances = 200, []int{1, 10}
	}
	// As many hops as there are nodes: else the last ones are only counted.
	u, err := newLineup(ctx, o, maxRouters, "--max-hops", fmt.Sprint(maxRouters+2))
	if err != nil {
		return nil, err
	}
	defer u.close()
	u.list = append(u.list, inBand())

	ends := make([]int, len(distances)) // the node behind so many routers
	for i, routers := range distances {
		ends[i] = routers + 1
	}
	medians := make([][][]float64, len(distances)) // by distance, neighbour, round
	for i := range medians {
		medians[i] = make([][]float64, len(u.list))
	}
	err = u.inTurn(ctx, o, rounds, ends, func(k, i int) error {
		m, err := echo(ctx, u.Network, network.Addr4(0, distances[i], 2), echoes)
		if err != nil {
			return fmt.Errorf("%d routers: %w", distances[i], err)
		}
		medians[i][k] = append(medians[i][k], m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	took, ratio := exchangeTables(u.list, distances, medians)
	ratio.Note("%d rounds; us are medians of %d echoes of 64 bytes. Echoes have DF set, replies have not. In-band telemetry is of echoes alone.", rounds, echoes)
	ratio.Notes = append(ratio.Notes, u.notes...)
	return []result.Table{took, ratio}, nil
}

// exchangeTables have the times and their ratios.
func exchangeTables(list []neighbour, distances []int, medians [][][]float64) (took, ratio result.Table) {
	took.Columns = []string{"routers"}
	for _, nb := range list {
		took.Columns = append(took.Columns, nb.name+", us")
	}
	const none, nop, radar = 0, 1, 2
	ratio.Columns = []string{"routers", "radar/nop", "radar/none", "nop/none"}
	pairs := [][2]int{{radar, nop}, {radar, none}, {nop, none}}
	for k, nb := range list {
		if k > radar {
			ratio.Columns = append(ratio.Columns, nb.name+"/none")
			pairs = append(pairs, [2]int{k, none})
		}
	}
	for i, routers := range distances {
		var lasted, of []*result.Figure
		for k := range list {
			lasted = append(lasted, result.Of(result.Us, medians[i][k]))
		}
		for _, p := range pairs {
			of = append(of, result.Of(result.Times, result.Ratios(medians[i][p[0]], medians[i][p[1]])))
		}
		took.Add(fmt.Sprint(routers), lasted...)
		ratio.Add(fmt.Sprint(routers), of...)
	}
	return took, ratio
}

// echoMost is how long a reply may take: a machine may stand still for seconds, which the median
// does not show.
const echoMost = 10 * time.Second

// echoPayload is what ping sends.
const echoPayload = 56

// echo exchanges n echoes and returns the median time in us.
func echo(ctx context.Context, n *network.Network, to netip.Addr, count int) (float64, error) {
	cpu, err := firstCPU()
	if err != nil {
		return 0, err
	}
	taken := make([]float64, 0, count)
	err = n.In(0, func() error {
		if err := unix.SchedSetaffinity(0, &cpu); err != nil {
			return fmt.Errorf("stay on one CPU: %w", err)
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return fmt.Errorf("open a ping socket: %w", err)
		}
		defer unix.Close(fd)
		wait := unix.NsecToTimeval(int64(echoMost))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return err
		}
		if err := unix.Connect(fd, sockaddr(to, 0)); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		for i := -count / 10; i < count; i++ { // a tenth to warm up
			if err := ctx.Err(); err != nil {
				return err
			}
			took, err := echoOnce(fd, uint16(i))
			if err != nil {
				return err
			}
			if i >= 0 {
				taken = append(taken, float64(took)/1e3)
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("echo: %w", err)
	}
	return result.Median(taken), nil
}

// echoOnce sends an echo with that number and waits for its reply.
func echoOnce(fd int, seq uint16) (time.Duration, error) {
	var out, in [8 + echoPayload]byte
	out[0] = 8 // echo request; the kernel fills in identifier and checksum
	binary.BigEndian.PutUint16(out[6:], seq)
	start := time.Now()
	binary.NativeEndian.PutUint64(out[8:], uint64(start.UnixNano())) // as ping does
	if err := again(func() error { _, err := unix.Write(fd, out[:]); return err }); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	for {
		n, err := unix.Read(fd, in[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, fmt.Errorf("no reply within %v", echoMost)
		case err != nil:
			return 0, fmt.Errorf("receive: %w", err)
		case n >= 8 && in[0] == 0 && binary.BigEndian.Uint16(in[6:]) == seq:
			return time.Since(start), nil
		}
	}
}
