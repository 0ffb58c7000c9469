// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Telemetry is what nodes measure of packets for one address, and who collects it. Nothing is attached yet: that is to
// put Ingress and Egress on the ports of nodes, and Sink at the ingress of the last one.
type Telemetry struct {
	*InbandObjects
	reader *ringbuf.Reader
	done   chan struct{}
}

// Open loads the programs and collects reports until Close.
func Open(address netip.Addr) (_ *Telemetry, err error) {
	spec, err := LoadInband()
	if err != nil {
		return nil, err
	}
	octets := address.As4()
	if err := spec.Variables[InbandVarDestination].Set(binary.NativeEndian.Uint32(octets[:])); err != nil {
		return nil, fmt.Errorf("set %s: %w", InbandVarDestination, err)
	}
	t := &Telemetry{InbandObjects: new(InbandObjects), done: make(chan struct{})}
	if err := spec.LoadAndAssign(t.InbandObjects, nil); err != nil {
		return nil, fmt.Errorf("load programs of in-band telemetry: %w", err)
	}
	if t.reader, err = ringbuf.NewReader(t.Reports); err != nil {
		return nil, errors.Join(fmt.Errorf("read reports: %w", err), t.InbandObjects.Close())
	}
	go t.collect()
	return t, nil
}

// collect reads reports, as a collector does. Nobody is woken up for them: it looks a hundred times a second.
func (t *Telemetry) collect() {
	defer close(t.done)
	var record ringbuf.Record
	for {
		t.reader.SetDeadline(time.Now().Add(10 * time.Millisecond))
		for {
			err := t.reader.ReadInto(&record)
			if errors.Is(err, ringbuf.ErrClosed) {
				return
			}
			if err != nil {
				break
			}
		}
	}
}

// Counted is how many packets words were put into, and how many were taken out and reported.
func (t *Telemetry) Counted() (measured, reported uint64, err error) {
	for which, sum := range map[InbandInbandCounter]*uint64{
		InbandInbandCounterINBAND_MEASURED: &measured, InbandInbandCounterINBAND_REPORTED: &reported,
	} {
		var perCPU []uint64
		if err := t.Counters.Lookup(uint32(which), &perCPU); err != nil {
			return 0, 0, fmt.Errorf("read counters: %w", err)
		}
		for _, n := range perCPU {
			*sum += n
		}
	}
	return measured, reported, nil
}

// Close ends collecting and gives the programs free.
func (t *Telemetry) Close() error {
	err := t.reader.Close()
	<-t.done
	return errors.Join(err, t.InbandObjects.Close())
}
