// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/words"
)

// keeping keeps packets of reports in segments. nil keeps none.
type keeping struct {
	dir     string
	writer  *segments.Writer
	numbers *packet.Registry
	stories *join.Stories
	failed  error
}

// beginRecording begins to keep the packets that a translator makes, beside what it does with them already.
func (f *options) beginRecording(k *kit.Kit, t *collect.Translator, stories *join.Stories, epoch uint32, version string) (*keeping, error) {
	if f.record == "" {
		return nil, nil
	}
	w, err := segments.Create(f.record, segments.Meta{
		Radar: version, Kernel: kernel.Release(), Host: host.Name(), Domain: k.Domain, Epoch: epoch, Created: time.Now(),
	}, segments.Options{})
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	r := &keeping{dir: f.record, writer: w, numbers: &packet.Registry{Machine: host.Name()}, stories: stories}
	_ = w.AddEvent(time.Now(), recording.EventBegin, map[string]any{"domain": k.Domain, "epoch": fmt.Sprintf("%08x", epoch)})
	t.Numbers = r.numbers
	before := t.Emit
	t.Emit = func(p *collect.Reported) {
		if before != nil {
			before(p)
		}
		r.keepPacket(p)
	}
	return r, nil
}

// keepPacket keeps a packet.
func (r *keeping) keepPacket(p *collect.Reported) {
	if r.failed != nil {
		return
	}
	var of packet.Scope = r.numbers
	if p.IsOwn() {
		of = r.stories.Scope()
	}
	kept := store.Recorded(p)
	r.failed = r.writer.Add(&kept, of)
}

// endRecording finishes the recording, and says what became of the packets.
func (r *keeping) endRecording(k *kit.Kit) error {
	if r == nil {
		return nil
	}
	_ = r.writer.AddEvent(time.Now(), recording.EventEnd, map[string]any{"domain": k.Domain, "kept": r.writer.Stats().Kept})
	err := r.writer.Close()
	stats := r.writer.Stats()
	fmt.Fprintf(k.Stderr, "radar: %s recorded in %s\n", words.Plural(int(stats.Kept), "packet"), r.dir)
	for _, cause := range answer.SortedKeys(stats.NotKept) {
		fmt.Fprintf(k.Stderr, "radar: %s not recorded: %s\n", words.Plural(int(stats.NotKept[cause]), "packet"), recording.CauseText(cause))
	}
	if r.failed != nil {
		return fmt.Errorf("--record: %w", r.failed)
	}
	return err
}
