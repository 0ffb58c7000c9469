// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/record"
)

// settle is how long packets in flight may take to arrive.
const settle = 2 * time.Minute

// radar is attached to a lab, and driven as users drive it.
type radar struct{ binary, domain string }

// attach attaches RADAR_BIN to all machines of a lab, or a radar that is built for it.
func attach(t *testing.T, l *lab.Lab) *radar {
	t.Helper()
	need.Radar(t)
	r := &radar{binary: os.Getenv("RADAR_BIN"), domain: nstest.Unique()}
	if r.binary == "" {
		r.binary = filepath.Join(t.TempDir(), "radar")
		build := exec.Command("go", "build", "-o", r.binary, "./cmd/radar")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build radar: %v\n%s", err, out)
		}
	}
	nstest.Cleanup(t, func() {
		if out, err := r.command("detach", "--no-drain").CombinedOutput(); err != nil {
			t.Errorf("radar detach: %v\n%s", err, out)
		}
	})
	// Some more slots than packets: the machine has little memory.
	r.run(t, "attach", "-d", "--lab", l.Name, "--slots", "2^15")
	return r
}

func (r *radar) command(args ...string) *exec.Cmd {
	return exec.Command(r.binary, append(args, "--domain", r.domain)...)
}

func (r *radar) run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := r.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("radar %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// records are all packets of UDP to h2, as soon as all have come to their end.
func (r *radar) records(t *testing.T) (list []record.Record) {
	t.Helper()
	for end := time.Now().Add(settle); ; time.Sleep(100 * time.Millisecond) {
		var status struct {
			Totals struct {
				InFlight int `json:"in_flight"`
			} `json:"totals"`
		}
		if err := json.Unmarshal(r.run(t, "status", "-o", "json"), &status); err != nil {
			t.Fatalf("radar status: %v", err)
		}
		if status.Totals.InFlight == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d packets are under way after %v", status.Totals.InFlight, settle)
		}
	}
	packets := r.run(t, "packets", "-o", "json", "--last", "0", "--proto", "udp", "--dst", h2.String())
	for dec := json.NewDecoder(bytes.NewReader(packets)); dec.More(); {
		var rec record.Record
		if err := dec.Decode(&rec); err != nil {
			t.Fatalf("radar packets: %v", err)
		}
		list = append(list, rec)
	}
	return list
}
