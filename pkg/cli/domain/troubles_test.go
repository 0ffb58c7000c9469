// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/system/resident"
)

// smallDisk puts a disk of 1 MB in the place of the state directory. fill fills what room there is.
func smallDisk(w *clitest.World) (fill func(), filler string) {
	w.Helper()
	root := os.Getenv("RADAR_STATE_DIR")
	nstest.Cleanup(w.T, func() {
		clitest.Radar(w.T, "detach", "--no-drain")
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // it is not mounted
			w.Error(err)
		}
	})
	if err := unix.Mount("radar-test", root, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		w.Fatalf("mount a small disk: %v", err)
	}
	filler = filepath.Join(root, "filler")
	return func() {
		w.Helper()
		f, err := os.OpenFile(filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			w.Fatal(err)
		}
		defer f.Close()
		for page := make([]byte, 4096); err == nil; {
			_, err = f.Write(page)
		}
		if !errors.Is(err, unix.ENOSPC) {
			w.Fatalf("fill the disk: %v", err)
		}
	}, filler
}

// With a full disk the agent cannot follow the topology. Every answer says so, until there is room
// again: then it goes on by itself.
func TestFullDisk(t *testing.T) {
	w := clitest.NewWorld(t)
	fill, filler := smallDisk(w)
	log := agentWithLog(w, w.Lab.AttachArgs()...)
	w.PingMeasured(1)
	before := w.Agent()
	if v := w.Status(); len(v.Agent.Troubles) > 0 {
		t.Fatalf("troubles before there are any: %+v", v.Agent.Troubles)
	}
	const snapshot = "write snapshot"
	var troubles []resident.Trouble
	newest, ports := "", 0
	nstest.WaitFor(t, "the agent to say in its log and in answers that it cannot", func() bool {
		fill() // what it has given up has left room, in which the other may have succeeded since
		said := log.String()
		if !strings.Contains(said, snapshot+": ") {
			w.PingMeasured(1) // else it has nothing to write
			return false
		}
		now := w.Status()
		if ports == 0 || slices.ContainsFunc(now.Nodes, hasPort(newest)) { // that one found room
			newest, ports = "new"+strconv.Itoa(ports), ports+1
			w.In("r1", "ip", "link", "add", newest, "type", "veth", "peer", "name", "peer-"+newest)
			w.In("r1", "ip", "link", "set", newest, "up")
			return false
		}
		troubles = now.Agent.Troubles
		return len(troubles) >= 2 && strings.Contains(said, "follow the topology: ")
	})
	for _, tr := range troubles {
		if !tr.Full || tr.Since.IsZero() || !strings.Contains(tr.Error, "no space left on device") {
			t.Errorf("trouble %+v on a full disk", tr)
		}
	}
	says := []string{ // the one that failed first stands first
		"the agent cannot " + troubles[0].What + " since", "nor " + troubles[1].What + " since",
		"follow the topology", snapshot, "what has come to the domain since then is not in answers", "make room on the disk of",
	}
	for _, question := range []string{"status", "latency", "loss", "packets", "throughput"} {
		w.Says([]string{question}, says...)
	}
	w.PingMeasured(1) // packets are measured all the same
	if slices.ContainsFunc(w.Status().Nodes, hasPort(newest)) {
		t.Fatal("the disk is full, and the new port is there")
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "the agent's log to say that it can again", func() bool {
		said := log.String()
		return strings.Contains(said, "follow the topology: works again") && strings.Contains(said, snapshot+": works again")
	})
	if list := w.Status().Agent.Troubles; len(list) > 0 {
		t.Errorf("there is room, and troubles are %+v", list)
	}
	if !slices.ContainsFunc(w.Status().Nodes, hasPort(newest)) {
		t.Error("the agent can follow the topology, and has not")
	}
	for _, question := range []string{"status", "latency"} {
		if out := w.Radar(kit.ExitOK, question); strings.Contains(out, "cannot") {
			t.Errorf("there is room, but radar %s says\n%s", question, out)
		}
	}
	if now := w.Agent(); now != before {
		t.Errorf("the agent was %+v, and is %+v", before, now)
	}
}

// agentWithLog attaches, and returns what the agent logs, which is in no file.
func agentWithLog(w *clitest.World, nodes ...string) *clitest.Growing {
	w.Helper()
	ready, log := filepath.Join(w.TempDir(), "ready"), new(clitest.Growing)
	cmd := exec.Command(background.SelfPath, append([]string{"attach", "--ready-file", ready}, nodes...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	nstest.WaitFor(w.T, "the agent", func() bool {
		select {
		case err := <-ended:
			ended <- err
			w.Fatalf("radar attach has ended: %v\n%s", err, log)
		default:
		}
		_, err := os.Stat(ready)
		return err == nil
	})
	return log
}

// hasPort says of nodes whether they have a port of that name.
func hasPort(name string) func(answer.Node) bool {
	return func(n answer.Node) bool {
		return slices.ContainsFunc(n.Ports, func(p answer.Port) bool { return p.Name == name })
	}
}
