// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// handedEnv tells the program of an agent that another one has called it.
const handedEnv = "RADAR_DETACH_HANDED_ON"

// detachOther ends a domain whose maps have another layout, after an upgrade. other is why
// we cannot: nothing but the radar that has attached it knows how its packets under way are
// restored. The program that its agent runs does; it may be gone from the disk, but the
// kernel keeps it as long as the agent lives. Without an agent nothing has been marked
// since the lease ended, and all of it is removed as it stands.
func detachOther(k *kit.Kit, other error, names []string, noDrain bool) error {
	running, err := agent.Find(k.Domain)
	if err != nil {
		return err
	}
	if running.PID != 0 {
		return fmt.Errorf("%w; %w", other, handOn(k, running, names, noDrain))
	}
	if len(names) > 0 {
		return other
	}
	fmt.Fprintf(k.Stderr, "radar: warning: %v; its agent, whose program would do it better, is gone: removing programs, maps and files without a summary\n", other)
	result, err := datapath.RemoveOther(k.Domain)
	if err != nil {
		return err
	}
	return printDetached(k, &detachView{Domain: k.Domain, Detached: true, Ended: true, Nodes: result.Nodes, Ports: result.Ports})
}

// handOn runs the agent's program in our place: its output, exit code and answers to signals
// are ours. It returns only if that fails.
func handOn(k *kit.Kit, running agent.Process, names []string, noDrain bool) error {
	fail := func(err error) error {
		return fmt.Errorf("run the program of its agent (process %d): %w", running.PID, err)
	}
	if os.Getenv(handedEnv) != "" {
		return fail(errors.New("it is another one, too"))
	}
	proc := fmt.Sprintf("/proc/%d", running.PID)
	exe, err := os.Open(filepath.Join(proc, "exe"))
	if err != nil {
		return fail(err)
	}
	defer exe.Close()
	var owner unix.Stat_t
	if err := unix.Stat(proc, &owner); err != nil {
		return fail(err)
	}
	// Its number may have become another process's before we opened it.
	if !running.Alive() || int(owner.Uid) != os.Geteuid() {
		return fail(errors.New("it is not ours"))
	}
	args := []string{"radar", "detach", "--domain", k.Domain, "--output", string(k.Output)}
	if k.Verbose {
		args = append(args, "--verbose")
	}
	if noDrain {
		args = append(args, "--no-drain")
	}
	args = append(append(args, "--"), names...)
	return fail(unix.Exec(fmt.Sprintf("/proc/self/fd/%d", exe.Fd()), args, append(os.Environ(), handedEnv+"=1")))
}
