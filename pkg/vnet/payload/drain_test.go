// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/loader"
)

// entryBytes is how long each entry is that the program of newProducer hands over: short ones come faster than they are taken.
const entryBytes = 24

// newProducer loads a program that hands over an entry each time it runs.
func newProducer(t *testing.T, ring *ebpf.Map) *ebpf.Program {
	t.Helper()
	list := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	for at := int16(-entryBytes); at < 0; at += 8 {
		list = append(list, asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	}
	list = append(list,
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -entryBytes),
		asm.Mov.Imm(asm.R3, entryBytes),
		asm.Mov.Imm(asm.R4, 1), // BPF_RB_NO_WAKEUP
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
	)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: loader.License, Instructions: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Drain takes no more than the ring buffer had room for when it began, however fast others fill it.
func TestDrainUnderLoad(t *testing.T) {
	need.AsRoot(t)
	const size = 1 << 16
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: size})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	c := &Capture{store: newStore(storeBytes, time.Hour)}
	if c.reader, err = ringbuf.NewReader(ring); err != nil {
		t.Fatal(err)
	}
	defer c.reader.Close()
	c.reader.SetDeadline(time.Unix(1, 0))

	producer := newProducer(t, ring)
	stop, producers := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		producers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := producer.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 10000}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer producers.Wait()
	defer close(stop)
	var last uint64
	most := uint64(size / sizeInRing(entryBytes))
	for range 50 {
		for c.reader.AvailableBytes() == 0 {
			if t.Failed() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		c.Drain()
		taken := c.store.left() - last
		if last += taken; taken > most {
			t.Fatalf("Drain has taken %d entries; the ring buffer has room for %d", taken, most)
		}
	}
	if c.err != nil || last == 0 {
		t.Errorf("%d entries, %v", last, c.err)
	}
}
