// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host"
)

// leave is what a process puts at an interface, by name, before it is killed. pins is a directory.
var leave = map[string]func(index int, pins string) error{
	"TCX": func(index int, pins string) error {
		return drop(ebpf.SchedCLS, ebpf.AttachNone, tcDrop, func(p *ebpf.Program) error {
			return AttachPinned(p, TCX{Ifindex: index}, filepath.Join(pins, "link-tcx"))
		})
	},
	"XDP": func(index int, pins string) error {
		return drop(ebpf.XDP, ebpf.AttachXDP, xdpDrop, func(p *ebpf.Program) error {
			return AttachPinned(p, XDP{Ifindex: index, Generic: true}, filepath.Join(pins, "link-xdp"))
		})
	},
	"native XDP": func(index int, pins string) error {
		return drop(ebpf.XDP, ebpf.AttachXDP, xdpDrop, func(p *ebpf.Program) error {
			return AttachPinned(p, XDP{Ifindex: index}, filepath.Join(pins, "link-xdp"))
		})
	},
	"clsact": func(index int, _ string) error {
		return drop(ebpf.SchedCLS, ebpf.AttachNone, tcDrop, func(p *ebpf.Program) error {
			_, err := EnsureClsact(index)
			return errors.Join(err, Filter{Ifindex: index, Name: "left"}.Add(p))
		})
	},
	"nothing": func(index int, _ string) error {
		return drop(ebpf.XDP, ebpf.AttachXDP, xdpDrop, func(p *ebpf.Program) error {
			_, err := Attach(p, XDP{Ifindex: index, Generic: true})
			return err
		})
	},
}

func drop(kind ebpf.ProgramType, at ebpf.AttachType, verdict int32, attach func(*ebpf.Program) error) error {
	p, err := loadProgram(kind, at, "", verdict)
	if err != nil {
		return err
	}
	return attach(p)
}

// TestLeft: a process is killed. What it has pinned, and its filters, stay, are found, and are
// taken off by another process. What it only held goes.
func TestLeft(t *testing.T) {
	need.AsRoot(t)
	if what := os.Getenv("RADAR_TEST_LEAVE"); what != "" {
		leaveAndDie(what)
	}
	dir := newPins(t)
	for what := range leave {
		if what == "TCX" && !slices.Contains(ways(t), ByTCX) {
			continue
		}
		p := newPair(t)
		p.reaches("before")
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeft$")
		cmd.Env = append(os.Environ(), "RADAR_TEST_LEAVE="+what, "RADAR_TEST_NETNS="+p.Path("b"),
			"RADAR_TEST_IFINDEX="+strconv.Itoa(p.Index("b", "e0")), "RADAR_TEST_PINS="+dir)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v\n%s", what, err, out)
		}
		if what == "nothing" {
			p.reaches("the process that held it is gone")
			continue
		}
		p.isCut(what)
		if out := p.Run("b", "ip", "link", "show", "e0"); strings.Contains(out, "xdpgeneric") != (what == "XDP") || strings.Contains(out, " xdp ") != (what == "native XDP") {
			t.Errorf("%s: the interface is\n%s", what, out)
		}
		takeOff(t, p, dir, what)
		p.reaches(what + ", taken off")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory of pins is still there")
	}
}

// takeOff finds what is left by its name, or in the directory of pins, and takes it off.
func takeOff(t *testing.T, p *pair, dir, what string) {
	t.Helper()
	index := p.Index("b", "e0")
	p.in("b", func() error {
		filters, err := Filters(func(name string) bool { return name == "left" })
		if want := what == "clsact"; want != (len(filters) == 1) {
			t.Errorf("%s: filters %+v", what, filters)
		}
		errs := []error{err}
		for _, f := range filters {
			if f.Ifindex != index || f.Direction != Ingress {
				t.Errorf("%s: found %+v, want interface %d", what, f, index)
			}
			errs = append(errs, f.Remove())
		}
		return errors.Join(errs...)
	})
	pins, err := Pins(dir, "link-")
	if want := what != "clsact"; err != nil || want != (len(pins) == 1) {
		t.Errorf("%s: pins %v, %v", what, pins, err)
	}
	for _, pin := range pins {
		if s, err := Look(pin); err != nil || s.Ifindex != index || s.Program == 0 {
			t.Errorf("%s: %+v, %v; want interface %d", what, s, err, index)
		}
		if err := Detach(pin); err != nil {
			t.Error(err)
		}
	}
}

func leaveAndDie(what string) {
	ns, _, err := host.OpenNetns(os.Getenv("RADAR_TEST_NETNS"))
	if err == nil {
		err = host.InNetns(ns, func() error {
			index, err := strconv.Atoi(os.Getenv("RADAR_TEST_IFINDEX"))
			return errors.Join(err, leave[what](index, os.Getenv("RADAR_TEST_PINS")))
		})
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
