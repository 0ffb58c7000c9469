// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/record"
)

// radar is a domain, driven through the command line as users drive it.
type radar struct {
	domain, bin string
}

// packetTimeout is the --timeout, the default one: longer than a machine stands still.
const packetTimeout = "10s"

// attach attaches radar in the background. It is detached at the end of the test
// at the latest.
func attach(t *testing.T, args ...string) *radar {
	t.Helper()
	r := &radar{domain: nstest.Unique(), bin: radarbin.Path(t)}
	nstest.Cleanup(t, func() { _, _ = r.try("detach", "--no-drain") }) // does nothing to one that is detached
	r.run(t, append([]string{"attach", "-d"}, args...)...)
	return r
}

func (r *radar) try(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.bin, append(args, "--domain", r.domain)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("radar %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

func (r *radar) run(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := r.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// settle waits until every packet has come to its end, as radar sees it.
func (r *radar) settle(t *testing.T) {
	t.Helper()
	var s struct {
		Totals struct {
			InFlight int `json:"in_flight"`
		} `json:"totals"`
	}
	const most = nstest.Patience + time.Minute // an agent on a busy machine may lag
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := json.Unmarshal(r.run(t, "status", "-o", "json"), &s); err != nil {
			t.Fatalf("radar status: %v", err)
		}
		if s.Totals.InFlight == 0 {
			return
		}
	}
	t.Errorf("%d packets are still in flight %v after the last one was sent", s.Totals.InFlight, most)
}

// records are all packets that radar remembers.
func (r *radar) records(t *testing.T) []record.Record {
	t.Helper()
	return decode[record.Record](t, r.run(t, "packets", "-o", "json", "--last", "0"))
}

// decode reads one JSON object after the other.
func decode[T any](t *testing.T, b []byte) []T {
	t.Helper()
	var list []T
	for dec := json.NewDecoder(bytes.NewReader(b)); dec.More(); {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("read JSON: %v", err)
		}
		list = append(list, v)
	}
	return list
}

// nodesOf are the names along the record's path.
func nodesOf(r record.Record) []string {
	var list []string
	for _, h := range r.Hops {
		list = append(list, h.Node)
	}
	return list
}
