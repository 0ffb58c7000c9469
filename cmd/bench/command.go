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

	"github.com/vnetradar/radar/cmd/bench/network"
)

// radar is the command, with a domain and a state directory of its own.
type radar struct {
	bin    string
	domain string
	dir    string
}

// newRadarCommand builds the command unless the user names one. Whoever calls closes it.
func newRadarCommand(ctx context.Context, o *options) (*radar, error) {
	r, err := newRadarDir(o.radar)
	if err != nil || r.bin != "" {
		return r, err
	}
	if err := r.build(ctx); err != nil {
		r.close()
		return nil, fmt.Errorf("build radar (-radar names one that is built): %w", err)
	}
	return r, nil
}

// newRadarOf builds the command with another object in it. Whoever calls closes it.
func newRadarOf(ctx context.Context, object namedObject) (*radar, error) {
	r, err := newRadarDir("")
	if err != nil {
		return nil, err
	}
	overlay, err := overlayOf(ctx, r.dir, object.file)
	if err == nil {
		err = r.build(ctx, "-overlay", overlay)
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("build radar with %s: %w", object.file, err)
	}
	return r, nil
}

func newRadarDir(bin string) (*radar, error) {
	dir, err := os.MkdirTemp("", "radar-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for radar's state: %w", err)
	}
	return &radar{bin: bin, domain: fmt.Sprintf("bench-%d", os.Getpid()), dir: dir}, nil
}

func (r *radar) build(ctx context.Context, flags ...string) error {
	r.bin = filepath.Join(r.dir, "radar")
	args := append(append([]string{"build"}, flags...), "-o", r.bin, "github.com/vnetradar/radar/cmd/radar")
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// overlayOf writes what makes go build take an object in place of the one of the tree.
func overlayOf(ctx context.Context, dir, object string) (file string, err error) {
	object, err = filepath.Abs(object)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(object); err != nil {
		return "", err // else the go command says that the tree has none
	}
	tree, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/vnetradar/radar/pkg/bpfobj").Output()
	if err != nil {
		return "", fmt.Errorf("find the tree's object: %w", err)
	}
	instead := filepath.Join(strings.TrimSpace(string(tree)), "tc_x86_bpfel.o")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{instead: object}})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
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
func (r *radar) attach(ctx context.Context, n *network.Network, flags ...string) error {
	args := append([]string{"attach", "-d"}, flags...)
	for i := range n.Nodes {
		args = append(args, fmt.Sprintf("n%d=netns:%s", i, n.Path(i)))
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
