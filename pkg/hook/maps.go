// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"time"

	"github.com/cilium/ebpf"
)

// freedTime bounds the wait for the kernel to let go of maps. It is short because
// the wait is in vain while another process, or another handle of this one, has
// them open.
const freedTime = 500 * time.Millisecond

// PinnedMaps are the numbers of the maps among the pins.
func PinnedMaps(pins []string) []ebpf.MapID {
	var ids []ebpf.MapID
	for _, pin := range pins {
		m, err := ebpf.LoadPinnedMap(pin, nil)
		if err != nil {
			continue
		}
		if info, err := m.Info(); err == nil {
			if id, ok := info.ID(); ok {
				ids = append(ids, id)
			}
		}
		m.Close()
	}
	return ids
}

// AwaitFreed waits until the kernel has freed the maps, a moment after the last
// pin is removed. Whoever lists BPF objects afterwards then finds nothing of ours.
// (A program that opens all maps just at that moment, as bpftool does, can make
// kernels keep a program array for ever: its cleaning up is then ordered twice
// and done once.)
func AwaitFreed(ids []ebpf.MapID) {
	for deadline := time.Now().Add(freedTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := false
		for _, id := range ids {
			// Asking for the next number takes no reference to the map.
			next, err := ebpf.MapGetNextID(id - 1)
			left = left || err == nil && next == id
		}
		if !left {
			return
		}
	}
}
