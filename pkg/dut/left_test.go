// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
)

// standing is what stands at the TC hooks of blue and red: links, filters and qdiscs.
func (w *world) standing() (found []string) {
	w.t.Helper()
	for _, p := range []*Port{w.blue, w.red} {
		err := p.do(func() error {
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				q, err := link.QueryPrograms(link.QueryOptions{Target: p.Index, Attach: at})
				if err != nil {
					continue // a kernel without TCX
				}
				for range q.Programs {
					found = append(found, p.Name+": "+at.String())
				}
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for _, node := range []string{"blue", "red"} {
		for _, hook := range []string{"ingress", "egress"} {
			for line := range strings.Lines(w.Run(node, "tc", "filter", "show", "dev", "e0", hook)) {
				if strings.Contains(line, "direct-action") {
					found = append(found, strings.TrimSpace(line))
				}
			}
		}
		if strings.Contains(w.Run(node, "tc", "qdisc", "show", "dev", "e0"), "clsact") {
			found = append(found, node+": clsact")
		}
	}
	return found
}

// TestNothingLeft: programs stand while a rig is open, and nothing does when it is closed, or could not be
// opened.
func TestNothingLeft(t *testing.T) {
	for _, by := range hooks(t) {
		w := newWorld(t).router()
		for _, round := range []bool{false, true} {
			a, err := Resolve(t.Context(), w.blue, w.red, Wish{})
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{In: w.blue, Out: w.red, Addresses: *a, Hook: by, Packets: 10, Round: round}
			r, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := 3
			if round {
				want = 6
			}
			if by == hook.ByClsact {
				want += 2 // qdiscs
			}
			if found := w.standing(); len(found) != want {
				t.Errorf("%s, round %v: %q", by, round, found)
			}
			second, err := Open(cfg)
			switch {
			case by == hook.ByClsact && (!errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "does another «dut» run there?")):
				t.Errorf("a second one: %v", err)
			case by == hook.ByTCX && err != nil:
				t.Errorf("a second one: %v", err)
			case by == hook.ByTCX:
				err = second.Close()
			}
			if by == hook.ByTCX && err != nil {
				t.Error(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		nstest.WaitFor(t, "nothing to be left", func() bool { return len(w.standing()) == 0 })
	}
}

// TestKilled: of a process that is killed links go, filters stay. The next one removes them, and
// leaves those of a process that lives.
func TestKilled(t *testing.T) {
	if path := os.Getenv("RADAR_TEST_DUT"); path != "" {
		holdOpen(path, os.Getenv("RADAR_TEST_DUT_HOOK"))
		return
	}
	for _, by := range hooks(t) {
		w := newWorld(t).bridge()
		child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), "RADAR_TEST_DUT="+w.Path("blue")+" "+w.Path("red"), "RADAR_TEST_DUT_HOOK="+by)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := errors.Join(w.blue.removeLeft(), w.red.removeLeft()); err != nil {
			t.Error(err)
		}
		stood := len(w.standing())
		if want := map[string]int{hook.ByTCX: 3, hook.ByClsact: 3 + 2}[by]; stood != want { // programs, and qdiscs
			t.Errorf("%s: of a process that lives there is %q", by, w.standing())
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		if by == hook.ByTCX {
			nstest.WaitFor(t, "links to go", func() bool { return len(w.standing()) == 0 })
			continue
		}
		if found := w.standing(); len(found) != stood {
			t.Errorf("%s: left is %q", by, found)
		}
		r := w.rig(Wish{}, Config{Hook: by})
		w.run(r, Trial{Size: 64, PPS: 100, Packets: 3})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r.sender, r.progs.off = nil, nil // closed
		if found := w.standing(); len(found) != 0 {
			t.Errorf("%s: behind the next one there is %q", by, found)
		}
	}
}

// holdOpen opens a rig between two namespaces, says so, and waits to be killed.
func holdOpen(paths, by string) {
	in, out, _ := strings.Cut(paths, " ")
	var ports []*Port
	for _, path := range []string{in, out} {
		ns, _, err := host.OpenNetns(path)
		if err != nil {
			panic(err)
		}
		p, err := OpenPort(path, ns, "e0")
		if err != nil {
			panic(err)
		}
		ports = append(ports, p)
	}
	a, err := Resolve(context.Background(), ports[0], ports[1], Wish{})
	if err != nil {
		panic(err)
	}
	if _, err := Open(Config{In: ports[0], Out: ports[1], Addresses: *a, Hook: by, Packets: 10}); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("open\n")
	time.Sleep(10 * time.Minute)
}
