// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// World is a lab h1 - r1 - h2 with a state directory and a domain of its own.
type World struct {
	*testing.T
	Lab    *lab.Lab
	Domain string
}

// NewWorld is a lab h1 - r1 - h2, which goes with the test.
func NewWorld(t *testing.T) *World {
	t.Helper()
	return NewWorldOf(t, "chain", map[string]string{"N": "1"})
}

// NewWorldOf is a world with another scenario.
func NewWorldOf(t *testing.T, name string, params map[string]string) *World {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "nft:nftables", "ping:iputils-ping", "nsenter:util-linux", "python3")
	w := &World{T: t, Domain: fmt.Sprintf("rdr%d", os.Getpid())}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_DOMAIN", w.Domain)
	t.Setenv("RADAR_SLOTS", "64K")
	t.Setenv(ExecEnv, "1")
	scenario, err := scenarios.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := scenario.Topology(params)
	if err != nil {
		t.Fatal(err)
	}
	if w.Lab, err = lab.Up(t.Context(), topology, lab.Options{Name: w.Domain, ScriptTimeout: Patience}); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		Radar(t, "detach", "--no-drain")
		if err := w.Lab.Down(); err != nil {
			t.Error(err)
		}
	})
	for _, m := range w.Lab.Machines {
		nstest.AwaitCarrier(t, w.Lab.NetNSPath(m.Name))
	}
	return w
}

// Radar runs a command that must end with code, and returns its output.
func (w *World) Radar(code int, args ...string) string {
	w.Helper()
	stdout, stderr, got := Radar(w.T, args...)
	if got != code {
		w.Fatalf("radar %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout + stderr
}

// Ping sends n echo requests from h1 to h2; all must come back.
func (w *World) Ping(n int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), Patience)
	defer cancel()
	out, err := w.Lab.Command(ctx, "h1", "ping", "-q", "-c", fmt.Sprint(n), "-i", "0.01", "10.0.2.2").CombinedOutput()
	if err != nil {
		w.Fatalf("ping: %v\n%s%s", err, out, w.whereLost())
	}
}

// PingMeasured pings until all packets of one ping were measured: an agent that got no CPU
// may have let the lease run out. It returns how many packets were measured up to then.
func (w *World) PingMeasured(n int) (measured uint64) {
	w.Helper()
	nstest.WaitFor(w.T, "packets that are all measured", func() bool {
		before := w.Status().Totals
		w.Ping(n)
		var now agent.Totals
		nstest.WaitFor(w.T, "all packets to be seen", func() bool {
			now = w.Status().Totals
			return now.Seen >= before.Seen+uint64(2*n)
		})
		measured = now.Measured
		return now.NotMeasured == before.NotMeasured
	})
	return measured
}

// whereLost is what the kernel and radar say of packets that did not arrive.
func (w *World) whereLost() string {
	var said strings.Builder
	for _, m := range w.Lab.Machines {
		out, err := w.Lab.Command(w.Context(), m.Name, "sh", "-c", "ip -s neigh; ip -s link; nstat -as").CombinedOutput()
		fmt.Fprintf(&said, "== %s (%v)\n%s", m.Name, err, out)
	}
	stdout, stderr, _ := Radar(w.T, "loss")
	fmt.Fprintf(&said, "== radar loss\n%s%s", stdout, stderr)
	return said.String()
}

// Packets is what "radar packets" shows.
func (w *World) Packets(args ...string) []record.Record {
	w.Helper()
	var records []record.Record
	stdout, stderr, code := Radar(w.T, append([]string{"packets", "-o", "json"}, args...)...)
	if code != kit.ExitOK {
		w.Fatalf("radar packets %v: code %d, stderr %q", args, code, stderr)
	}
	dec := json.NewDecoder(strings.NewReader(stdout))
	for dec.More() {
		var r record.Record
		if err := dec.Decode(&r); err != nil {
			w.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// Patience is how long something that must happen may take.
const Patience = nstest.Patience

// Settled waits until n packets have ended and all are accounted for.
func (w *World) Settled(n uint64) {
	w.Helper()
	var totals agent.Totals
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		totals = w.Status().Totals
		if totals.Delivered+totals.Left+totals.Lost == n && totals.InFlight == 0 && totals.Unaccounted == 0 {
			// status shows ends as they stand; what follows the ring waits 50 ms more.
			time.Sleep(100 * time.Millisecond)
			return
		}
	}
	w.Fatalf("want %d packets that have ended, have %+v", n, totals)
}

// Agent is the domain's agent; it must live.
func (w *World) Agent() agent.Process {
	w.Helper()
	p, err := agent.Find(w.Domain)
	if err != nil || p.PID == 0 {
		w.Fatalf("no agent: %+v, %v", p, err)
	}
	return p
}

// Kill ends the agent as nothing else could.
func (w *World) Kill() {
	w.Helper()
	p := w.Agent()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
	w.Gone(p)
}

// Gone waits until a process has ended.
func (w *World) Gone(p agent.Process) {
	w.Helper()
	for deadline := time.Now().Add(Patience); p.Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("process %d lives on", p.PID)
		}
	}
}

// NothingLeft demands that the domain has left no pin and no state.
func (w *World) NothingLeft() {
	w.Helper()
	for _, path := range []string{domain.PinDir(w.Domain), domain.Dir(w.Domain)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			left, _ := filepath.Glob(path + "/*")
			w.Errorf("%s is left behind: %v", path, left)
		}
	}
}

// Foreground starts a radar in the foreground and waits until it is ready.
func (w *World) Foreground(args ...string) (*exec.Cmd, *bytes.Buffer) {
	w.Helper()
	ready := filepath.Join(w.TempDir(), "ready")
	var out bytes.Buffer
	cmd := exec.Command(background.SelfPath, append(args, "--ready-file", ready)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = cmd.Process.Kill() })
	for deadline := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			return cmd, &out
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			w.Fatalf("radar %v is not ready: %s", args, out.String())
		}
	}
}
