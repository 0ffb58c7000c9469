// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/domain"
)

// goneTime bounds the wait for the kernel to let go of maps. It is short because
// the wait is in vain while another process, or another handle of this one, has
// them open.
const goneTime = 500 * time.Millisecond

// pinnedMapIDs returns the numbers of the domain's maps.
func pinnedMapIDs(domainName string) []ebpf.MapID {
	entries, err := os.ReadDir(domain.PinDir(domainName))
	if err != nil {
		return nil
	}
	var ids []ebpf.MapID
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), linkPrefix) {
			continue
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(domain.PinDir(domainName), e.Name()), nil)
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

// awaitGone waits until the kernel has freed the maps, a moment after the last
// pin is removed. Whoever lists BPF objects afterwards then finds nothing of ours.
// (A program that opens all maps just at that moment, as bpftool does, can make
// kernels keep the program array for ever: its cleaning up is then ordered twice
// and done once.)
func awaitGone(ids []ebpf.MapID) {
	for deadline := time.Now().Add(goneTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
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
