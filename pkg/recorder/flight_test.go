// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// waiting is a flight recorder, with what it says.
func waiting(dir string) (r *Recorder, said *[]string) {
	said = new([]string)
	d := network()
	r = &Recorder{Options: Options{Dir: dir, Say: func(text string) { *said = append(*said, text) }}}
	r.ring = &answer.Ring{Reader: &agent.Reader{Domain: d, Decoder: backpack.NewDecoder(d, nil)}}
	r.flight = &flight{Flight: &Flight{Before: time.Second, After: time.Second}, lastMet: make(map[*Condition]int64)}
	return r, said
}

// A directory that cannot be opened does not end a flight recorder. It says so once for each trigger.
func TestUnopened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, said := waiting(filepath.Join(file, "run"))
	c := &Condition{Text: "path change"}
	for _, at := range []int64{0, 10 * ms, 5000 * ms} {
		if err := r.meet(&met{of: c, at: at, last: at, value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(*said) != 2 || !strings.Contains((*said)[0], "path change: x, but nothing is kept: ") || r.flight.triggers != 2 || r.flight.unopened == nil {
		t.Errorf("it says %q, %d triggers", *said, r.flight.triggers)
	}
}

// A disk that fails when a window ends does not end a flight recorder.
func TestUnfinished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, said := waiting(dir)
	var err error
	if r.writer, err = segments.Create(dir, segments.Meta{}, segments.Options{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.event("lost", nil)
	r.flight.windows = []window{{0, 1}}
	if err := r.finish(); err != nil {
		t.Errorf("it ends: %v", err)
	}
	if n := r.writer.Stats().EventsNotKept; n != 1 || len(*said) != 1 || !strings.Contains((*said)[0], "not all of it is kept: ") {
		t.Errorf("%d events were not kept, it says %q", n, *said)
	}
	_ = r.writer.Close()
}

// A directory that somebody has removed while a flight recorder waited is made again.
func TestRemovedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, _ := waiting(dir)
	defer r.release()
	for range 2 {
		if err := r.claimDir(); err != nil {
			t.Fatal(err)
		}
		if _, err := claim.Take(dir); !errors.Is(err, claim.ErrInUse) {
			t.Errorf("a second recorder: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// looking is a flight recorder that has looked at its ring every 100 ms until then, with a packet in each ms.
func looking(t *testing.T, until int64) *flight {
	t.Helper()
	c := &Condition{kind: promises, within: time.Minute}
	f := &flight{Flight: &Flight{On: []*Condition{c}, Before: time.Second, After: time.Second}, timeout: 10 * time.Second}
	for at := int64(0); at <= until; at += 100 * ms {
		f.begin(at, uint64(at/ms))
	}
	return f
}

// A window may begin TIME and the domain's timeout back: that the ring has come round since is reported then, too, and packets
// of the windows of that time are not kept twice.
func TestLongWindows(t *testing.T) {
	f := looking(t, 300_000*ms)
	for _, c := range []struct {
		from, slots int64
		windows     []window
		want        int64
	}{
		{300_000 - 71_000, 8192, nil, 71_000 - 8192},
		{300_000 - 71_000, 1 << 17, nil, 0},
		{300_000 - 71_000, 8192, []window{{240_000 * ms, 250_000 * ms}}, 71_000 - 8192 - 10_000},
		{240_000, 8192, []window{{200_000 * ms, 310_000 * ms}}, 0},
	} {
		f.windows = c.windows
		if n, earlier := f.overwritten(c.from*ms, uint64(c.slots)); n != uint64(c.want) || earlier {
			t.Errorf("from %d, %v: %d, %v, want %d", c.from, c.windows, n, earlier, c.want)
		}
	}
	f = looking(t, 2000*ms)
	if n, earlier := f.overwritten(-500*ms, 1500); n != 500 || !earlier {
		t.Errorf("from before the first look: %d, %v", n, earlier)
	}
	f = looking(t, 100_000*ms)
	f.windows = []window{{0, 20_000 * ms}, {90_000 * ms, 91_000 * ms}}
	f.begin(100_100*ms, 100_100)
	if p := (&packet.Packet{T0: uint64(20_000 * ms), LastNs: 20_000 * ms}); !f.isKept(p) || !(window{100_100*ms - f.reach(), 100_100 * ms}).has(p) {
		t.Error("a packet that was kept would be kept again")
	}
	if n := len(looking(t, 300_000*ms).cursors); n > 760 {
		t.Errorf("%d cursors are remembered", n)
	}
}

// A promise that is broken anew is an event of its own: its windows may begin close to each other.
func TestBrokenAnew(t *testing.T) {
	r, said := waiting(filepath.Join(t.TempDir(), "file", "run"))
	r.Dir = "/proc/run"
	c := &Condition{Text: "assert x in 2s", kind: promises, within: 2 * time.Second}
	for _, at := range []int64{0, 2500 * ms} {
		if err := r.meet(&met{of: c, at: at, last: at + 2000*ms, value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(*said) != 2 || r.flight.triggers != 2 {
		t.Errorf("it says %q, %d triggers", *said, r.flight.triggers)
	}
}
