// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// payloadBytes is how much the datagrams carry whose payload is captured.
const payloadBytes = 1400

// payloads measures what a capture of payload adds at a hook.
func payloads(ctx context.Context, o *options) ([]Table, error) {
	t := hookTest{open: large(payloadBytes), designs: []maker{nopDesign, radarDesign(builtIn())}}
	for _, n := range []uint32{64, 256, 1500} {
		t.designs = append(t.designs, payloadDesign(n))
	}
	designs, samples, err := t.measure(ctx, o)
	if err != nil {
		return nil, err
	}
	table := perHook(designs, samples)
	cells := []*Figure{nil}
	for i := range designs[1:] {
		cells = append(cells, figure(times, ratios(sums(samples[1+i], allHooks), sums(samples[1], allHooks))))
	}
	table.add("of radar alone", cells...)
	var lost uint64
	for _, list := range samples[2:] {
		for _, one := range list {
			lost += one.lost
		}
	}
	table.note("%d rounds of %s; %d packets without payload", o.rounds, trains(samples), lost)
	return []Table{table}, nil
}

// payloadDesign is radar with a capture of payload at every hook, behind radar's own program.
func payloadDesign(snapLen uint32) maker {
	return func(c *chain, slots uint32) (*design, error) {
		o := builtIn()
		o.name = fmt.Sprintf("snaplen %d", snapLen)
		d, err := newRadar(c, o, slots)
		if err != nil {
			return nil, err
		}
		if err := d.addPayload(snapLen, slots); err != nil {
			d.close()
			return nil, loadError(o.name, err)
		}
		return d, nil
	}
}

// addPayload loads the program and a stub for each hook, and reads what is captured.
func (d *design) addPayload(snapLen, slots uint32) error {
	spec, err := bpfobj.LoadPayload()
	if err != nil {
		return err
	}
	options := program.DefaultOptions()
	options.Slots = slots
	if err := configure(spec, options); err != nil {
		return err
	}
	if err := spec.Variables[bpfobj.PayloadVarCfgSnaplen].Set(snapLen); err != nil {
		return err
	}
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "payload") {
			shared[name] = d.maps[name]
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return err
	}
	progs := coll.Maps[bpfobj.PayloadMapPayloadProgs]
	err = progs.Put(uint32(0), coll.Programs[bpfobj.PayloadProgRadarPayload])
	for i, h := range hooks {
		where := portNumber(0, i)
		if !h.ingress {
			where |= int(bpfobj.PayloadRdrPayloadWhereRDR_PAYLOAD_OUT)
		}
		var failed error
		d.behind[i], failed = stub(where, 0, progs)
		err = errors.Join(err, failed)
	}
	reader, failed := ringbuf.NewReader(coll.Maps[bpfobj.PayloadMapPayloads])
	if err = errors.Join(err, failed); err != nil {
		coll.Close()
		return err
	}
	var ended sync.WaitGroup
	ended.Go(func() { readAll(reader) })
	radar := d.close
	d.close = func() {
		reader.Close()
		ended.Wait()
		coll.Close()
		radar()
	}
	counts, lost := coll.Maps[bpfobj.PayloadMapPayloadCounts], d.lost
	d.lost = func() (uint64, error) {
		n, err := lost()
		for c := bpfobj.PayloadRdrPayloadCountRDR_PC_NO_IDENTITY; c < bpfobj.PayloadRdrPayloadCountRDR_PC_MAX && err == nil; c++ {
			var more uint64
			more, err = sumPerCPU(counts, uint32(c))
			n += more
		}
		return n, err
	}
	return nil
}

// readAll reads a ring buffer, as a capture does, until it is closed.
func readAll(r *ringbuf.Reader) {
	var record ringbuf.Record
	for {
		r.SetDeadline(time.Now().Add(10 * time.Millisecond))
		if err := r.ReadInto(&record); errors.Is(err, ringbuf.ErrClosed) {
			return
		}
	}
}
