// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// radar is the command, with a domain and a state directory of its own.
type radar struct {
	bin    string
	domain string
	dir    string
}

// newRadarCommand builds the command unless the user names one. Whoever calls closes it.
func newRadarCommand(ctx context.Context, o *options) (*radar, error) {
	dir, err := os.MkdirTemp("", "radar-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for radar's state: %w", err)
	}
	r := &radar{bin: o.radar, domain: fmt.Sprintf("bench-%d", os.Getpid()), dir: dir}
	if r.bin == "" {
		r.bin = filepath.Join(dir, "radar")
		out, err := exec.CommandContext(ctx, "go", "build", "-o", r.bin, "github.com/vnetradar/radar/cmd/radar").CombinedOutput()
		if err != nil {
			r.close()
			return nil, fmt.Errorf("build radar (-radar names one that is built): %w\n%s", err, out)
		}
	}
	return r, nil
}

// close detaches what is attached, also when the run was interrupted.
func (r *radar) close() {
	if _, err := os.Stat(filepath.Join(r.dir, "state")); err == nil {
		_ = r.detach()
	}
	os.RemoveAll(r.dir)
}

// command is radar with those arguments. Ctrl-C on the terminal does not reach it: this
// process ends it.
func (r *radar) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.bin, append(args, "--domain", r.domain)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RADAR_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "RADAR_STATE_DIR="+filepath.Join(r.dir, "state"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// It rolls back what it has begun.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs radar and returns what it printed.
func (r *radar) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := r.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("radar %s: %w\n%s%s", args[0], err, out, stderr.String())
	}
	return out, nil
}

// attach attaches the nodes of a network with everything that is on by default.
func (r *radar) attach(ctx context.Context, n *network, flags ...string) error {
	args := append([]string{"attach", "-d"}, flags...)
	for i := range n.nodes {
		args = append(args, fmt.Sprintf("n%d=netns:%s", i, n.path(i)))
	}
	_, err := r.run(ctx, args...)
	return err
}

// detach ends the domain, whether or not ctx has ended.
func (r *radar) detach() error {
	_, err := r.run(context.Background(), "detach", "--no-drain")
	return err
}

// radarStatus is what is needed here of "radar status -o json".
type radarStatus struct {
	Agent struct {
		PID int `json:"pid"`
	} `json:"agent"`
	Totals struct {
		Seen        int `json:"seen"`
		InFlight    int `json:"in_flight"`
		NotMeasured int `json:"not_measured"`
		Unread      int `json:"unread"`
	} `json:"totals"`
}

func (r *radar) status(ctx context.Context) (s radarStatus, err error) {
	out, err := r.run(ctx, "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	return s, err
}

// settle waits until no packet is in flight as radar sees it: each is in the summaries.
func (r *radar) settle(ctx context.Context) (s radarStatus, err error) {
	const most = 30 * time.Second
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if s, err = r.status(ctx); err != nil || s.Totals.InFlight == 0 {
			return s, err
		}
	}
	return s, fmt.Errorf("%d packets are in flight %v after the last one was sent", s.Totals.InFlight, most)
}

// start starts a command in a node. It ends when ctx does.
func (n *network) start(node int, cmd *exec.Cmd) error {
	return n.in(node, cmd.Start)
}

// stop ends a command by a signal; that it was what ended it is no error.
func stop(cmd *exec.Cmd, signal os.Signal) error {
	_ = cmd.Process.Signal(signal)
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
