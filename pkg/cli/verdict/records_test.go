// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/compare"
)

// TestWrongSegs: a file's record that stands for no packet, or for more than the kernel counts, is refused with its
// line.
func TestWrongSegs(t *testing.T) {
	for segs, refused := range map[int]bool{-1: true, 0: true, 1: false, 65535: false, 65536: true} {
		text := fmt.Sprintf("\n"+`{"v":1,"id":"1-2","state":"lost","segs":%d}`+"\n", segs)
		run := compare.NewRun("a")
		err := readRecords(strings.NewReader(text), &answer.Selection{}, run)
		if (err != nil) != refused || refused && !strings.HasPrefix(err.Error(), fmt.Sprintf("line 2: segs %d: ", segs)) || !refused && run.Packets() != uint64(segs) {
			t.Errorf("segs %d: %d packets, %v", segs, run.Packets(), err)
		}
	}
}
