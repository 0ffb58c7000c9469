// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// netem puts an emulator in the place of r1's queue toward h2.
func netem(w *clitest.World, verb string, args ...string) {
	w.Helper()
	command := slices.Concat([]string{"tc", "qdisc", verb, "dev", "eth1", "root", "netem", "limit", "10000"}, args)
	if out, err := w.Lab.Command(w.Context(), "r1", command...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "qdisc kind is unknown") {
			need.Lack(w.T, need.Kernel, "netem")
		}
		w.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// TestNetem: what the kernel's emulator declares is what packets meet, and what it did not do is untrue.
func TestNetem(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		true   map[fidelity.Property]float64
		later  []string
		untrue fidelity.Property
	}{
		"delay": {
			[]string{"delay", "20ms", "5ms"}, map[fidelity.Property]float64{fidelity.Delay: 20e6, fidelity.Jitter: 5e6},
			[]string{"delay", "40ms", "5ms"}, fidelity.Delay,
		},
		"loss": {
			[]string{"loss", "20%"}, map[fidelity.Property]float64{fidelity.Loss: 0.2},
			[]string{"loss", "60%"}, fidelity.Loss,
		},
		"bursts": {
			[]string{"loss", "gemodel", "10%", "40%"}, map[fidelity.Property]float64{fidelity.Loss: 0.2},
			[]string{"loss", "gemodel", "70%", "20%"}, fidelity.Loss,
		},
		"reorder": {
			[]string{"delay", "20ms", "reorder", "25%"}, map[fidelity.Property]float64{fidelity.Reorder: 0.25, fidelity.Delay: 20e6},
			[]string{"delay", "20ms", "reorder", "80%"}, fidelity.Reorder,
		},
		"duplicate": {
			[]string{"duplicate", "20%"}, map[fidelity.Property]float64{fidelity.Duplicate: 0.2, fidelity.Loss: 0},
			[]string{"duplicate", "80%"}, fidelity.Duplicate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			netem(w, "add", c.args...)
			w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "5s"}, w.Lab.AttachArgs()...)...)
			w.Listen("h2", 9000)
			drops := dropwatch.Start(t)
			w.In("h1", "python3", "-c", sendPaced, "10.0.2.2")
			w.Ended(1200, "--proto", "udp", "--dport", "9000")
			flags := []string{"--proto", "udp", "--least-time", "3ms", "--least-share", "0.12", "--part", "0.1"}
			rows := fidelityOf(w, flags...)
			for what, declared := range c.true {
				if r := rows[what]; r.Verdict != fidelity.True || r.Declared < declared*0.999 || r.Declared > declared*1.001 {
					t.Errorf("%s: %+v", what, r)
				}
			}
			if lost, is := rows[fidelity.Loss]; is && lost.Measured != nil {
				sent, dropped := statistics(w)
				got, untold := uint64(*lost.Measured*float64(lost.Packets)+0.5), w.Untold(drops, "QDISC_DROP")
				if (got > dropped || got+untold < dropped) && name != "duplicate" {
					t.Errorf("tc sent %d and dropped %d, radar says %d of %d, and was not told of at most %d", sent, dropped, got, lost.Packets, untold)
				}
			}
			netem(w, "change", c.later...)
			if r := fidelityOf(w, flags...)[c.untrue]; r.Verdict != fidelity.Untrue || len(r.Causes) == 0 {
				t.Errorf("declared anew, as packets did not meet it: %+v", r)
			}
		})
	}
}
