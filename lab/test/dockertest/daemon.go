// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long the engine may take to start and to end.
const (
	startTime = 2 * time.Minute
	stopTime  = 2 * time.Minute
)

// daemon is an engine of our own.
type daemon struct {
	place     place
	dir       string // everything of it
	cmd       *exec.Cmd
	ended     chan error
	hadBridge bool                // docker0 was there before
	rules     map[string][]string // of the packet filters before, by tool
}

// ruleTools list the rules of the packet filters that an engine adds to.
var ruleTools = []string{"iptables", "ip6tables"}

// bridge is the network of an engine that names no other.
const bridge = "docker0"

// place is where an engine and its network are: what commands begin with there.
// Empty is here.
type place []string

func (p place) command(name string, args ...string) *exec.Cmd {
	words := slices.Concat(p, []string{name}, args)
	return exec.Command(words[0], words[1:]...)
}

// startDaemon starts an engine and waits until it answers. The caller stops it.
func startDaemon(where place) (_ *daemon, err error) {
	if _, err := exec.LookPath("dockerd"); err != nil {
		return nil, fmt.Errorf("no engine answers, and none can be started: %w", err)
	}
	d := &daemon{place: where, hadBridge: where.hasBridge(), rules: where.rules(), ended: make(chan error, 1)}
	if d.dir, err = os.MkdirTemp("", "rdrdocker"); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(d.dir))
	}
	defer log.Close()
	d.cmd = where.command("dockerd", "--host", d.host(),
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"),
		"--pidfile", filepath.Join(d.dir, "pid"))
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// Should this program be killed, the engine ends as well.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(d.dir))
	}
	go func() { d.ended <- d.cmd.Wait() }()
	if err := d.awaitReady(); err != nil {
		tail := d.logTail()
		return nil, fmt.Errorf("%w; the end of its log:\n%s", errors.Join(err, d.stop()), tail)
	}
	return d, nil
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "sock") }

func (d *daemon) awaitReady() error {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		if exec.Command("docker", "--host", d.host(), "version").Run() == nil {
			return nil
		}
		select {
		case err := <-d.ended:
			d.ended <- err
			return fmt.Errorf("dockerd ended: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("dockerd does not answer after %v", startTime)
}

func (d *daemon) logTail() string {
	const most = 2000
	b, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}

// stop ends the engine and removes all that it made.
func (d *daemon) stop() error {
	bridges, err := d.bridges()
	errs := []error{err}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(stopTime):
		errs = append(errs, fmt.Errorf("dockerd does not end after %v", stopTime), d.cmd.Process.Kill())
		<-d.ended
	}
	errs = append(errs, d.unmount(), d.place.undoRules(d.rules, bridges))
	for _, name := range bridges {
		if name == bridge && (d.hadBridge || !d.place.hasBridge()) {
			continue
		}
		if out, err := d.place.command("ip", "link", "delete", name).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("ip link delete %s: %w: %s", name, err, out))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// bridges returns the interfaces of the engine's networks: of its own and of those that
// nobody removed.
func (d *daemon) bridges() ([]string, error) {
	names := []string{bridge}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "--host", d.host(),
		"network", "ls", "--quiet", "--filter", "type=custom", "--filter", "driver=bridge").CombinedOutput()
	if err != nil {
		return names, fmt.Errorf("docker network ls: %w: %s", err, out)
	}
	for id := range strings.FieldsSeq(string(out)) {
		names = append(names, "br-"+id)
	}
	return names, nil
}

// unmount takes off what is still mounted below the engine's folder.
func (d *daemon) unmount() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], d.dir+"/") {
			errs = append(errs, unix.Unmount(fields[1], unix.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}

func (p place) hasBridge() bool { return p.command("ip", "link", "show", bridge).Run() == nil }

// rules returns "iptables -S" of the tables that an engine adds to, each
// line with its table in front.
func (p place) rules() map[string][]string {
	rules := make(map[string][]string)
	for _, tool := range ruleTools {
		for _, table := range []string{"filter", "nat"} {
			out, err := p.command(tool, "-t", table, "-S").Output()
			if err != nil {
				continue // no such tool or table: no rules of it
			}
			for line := range strings.Lines(string(out)) {
				rules[tool] = append(rules[tool], "-t "+table+" "+strings.TrimSpace(line))
			}
		}
	}
	return rules
}

// undoRules takes back what the engine added since before: its own chains, jumps
// to them, rules for its bridges, and the policy of FORWARD. Rules that others
// added meanwhile stay.
func (p place) undoRules(before map[string][]string, bridges []string) error {
	var errs []error
	for tool, now := range p.rules() {
		var jumps, chains, policies [][]string
		for _, line := range now {
			if slices.Contains(before[tool], line) {
				continue
			}
			words := strings.Fields(line) // -t TABLE VERB CHAIN ...
			ours := strings.Contains(line, "DOCKER") ||
				slices.ContainsFunc(bridges, func(name string) bool { return strings.Contains(line, name) })
			switch {
			case words[2] == "-A" && ours:
				jumps = append(jumps, replaced(words, "-D"))
			case words[2] == "-N" && strings.HasPrefix(words[3], "DOCKER"):
				chains = append(chains, replaced(words, "-X"))
			case words[2] == "-P" && words[3] == "FORWARD" && slices.Contains(before[tool], "-t "+words[1]+" -P FORWARD ACCEPT"):
				policies = append(policies, []string{"-t", words[1], "-P", "FORWARD", "ACCEPT"})
			}
		}
		for _, args := range slices.Concat(jumps, chains, policies) {
			if out, err := p.command(tool, args...).CombinedOutput(); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, out))
			}
		}
	}
	return errors.Join(errs...)
}

func replaced(words []string, verb string) []string {
	words = slices.Clone(words)
	words[2] = verb
	return words
}
