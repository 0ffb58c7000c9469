// SPDX-License-Identifier: Apache-2.0

// Package lab runs network scenarios in Kathará's format (lab.conf and
// MACHINE.startup) in plain network namespaces, without containers.
//
// Every machine is a namespace of its own named LAB-MACHINE, which "ip netns"
// shows; it shares file system and processes with this host. A link between two
// machines is one veth pair; what else links need lies in the namespace
// LAB.links. This host's own namespace never sees an interface of a lab.
//
// What runs is described by a file in the state directory, and nothing else:
// any process can list labs and take them down. All functions may be used
// concurrently; two that make the same lab exclude each other.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// stateVersion is the version of the description in the state directory.
const stateVersion = 1

// Sentinel errors. ErrNotRunning: there is no lab of that name; see List.
// ErrExists: a lab or a namespace of that name is there; the message says how to
// remove it. ErrBusy: another process is making the lab; end that one first.
var (
	ErrNotRunning = errors.New("no such lab runs")
	ErrExists     = errors.New("already there")
	ErrBusy       = errors.New("lab is being started")
)

// Lab is a lab that runs, or what is left of one.
type Lab struct {
	Version     int       `json:"version"`
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Source      string    `json:"source"` // folder, or "built-in NAME"
	Created     time.Time `json:"created"`
	Status      Status    `json:"status"`
	Machines    []Node    `json:"machines"`
	Links       []Link    `json:"links"`
	// LinksNetNS is the namespace of bridges and loose ends; empty if all links
	// are direct.
	LinksNetNS string `json:"links_netns,omitempty"`
	LinksInum  uint32 `json:"links_inum,omitempty"`
	// Maker is the process that is starting the lab.
	Maker host.Process `json:"maker,omitzero"`
}

// Node is one machine that runs.
type Node struct {
	Name  string `json:"name"`
	NetNS string `json:"netns"` // name under /run/netns
	Inum  uint32 `json:"inum"`  // inode number of the namespace; 0: not made yet
}

// Status of a lab.
type Status string

// The states of a lab. Incomplete: its start was killed, or namespaces of it
// have been removed by others; take it down.
const (
	Starting   Status = "starting"
	Running    Status = "running"
	Incomplete Status = "incomplete"
)

// maxName is the longest name of a lab, in bytes.
const maxName = 32

var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// CheckName refuses names of labs that cannot be part of a namespace's name.
func CheckName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("lab name %q: use 1 to %d letters, digits, '_', '.' or '-', the first a letter or digit", name, maxName)
	}
	return nil
}

// stateDir holds NAME.json and NAME.d of every lab.
func stateDir() string { return filepath.Join(statedir.Root(), "labs") }

func stateFile(name string) string { return filepath.Join(stateDir(), name+".json") }

// dir holds the scripts and logs of the lab.
func (l *Lab) dir() string { return filepath.Join(stateDir(), l.Name+".d") }

// sharedDir is where scripts find the files that all machines see.
func (l *Lab) sharedDir() string { return filepath.Join(l.dir(), sharedDir) }

// sharedVariable names that folder in their environment.
const sharedVariable = "LAB_SHARED"

// LogPath is the file with what the scripts of a machine printed, and their
// commands.
func (l *Lab) LogPath(machine string) string { return filepath.Join(l.dir(), machine+".log") }

// netnsName joins the names with '-', which no machine has in its name, and the
// namespace for links with '.', for the same reason: all are different.
func (l *Lab) netnsName(machine string) string { return l.Name + "-" + machine }

// namespaces lists the names of all namespaces of the lab.
func (l *Lab) namespaces() []string {
	names := make([]string, 0, len(l.Machines)+1)
	for _, m := range l.Machines {
		names = append(names, m.NetNS)
	}
	if l.LinksNetNS != "" {
		names = append(names, l.LinksNetNS)
	}
	return names
}

// inums maps the names of the namespaces to their inode numbers, 0 if unknown.
func (l *Lab) inums() map[string]uint32 {
	inums := make(map[string]uint32)
	for _, m := range l.Machines {
		inums[m.NetNS] = m.Inum
	}
	if l.LinksNetNS != "" {
		inums[l.LinksNetNS] = l.LinksInum
	}
	return inums
}

// Get returns the lab with that name. It returns ErrNotRunning if there is none.
func Get(name string) (*Lab, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(stateFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab %q: %w", name, ErrNotRunning)
	}
	if err != nil {
		return nil, fmt.Errorf("read state of lab: %w", err)
	}
	l := new(Lab)
	if err := json.Unmarshal(b, l); err != nil {
		return nil, fmt.Errorf("read state of lab %s: %w", stateFile(name), err)
	}
	if l.Version != stateVersion || l.Name != name {
		return nil, fmt.Errorf("lab %q was started by a radar with state version %d, this one has %d: take it down with that radar",
			name, l.Version, stateVersion)
	}
	l.Status = l.status()
	return l, nil
}

// status works out what the state file cannot know.
func (l *Lab) status() Status {
	if l.Status == Starting {
		if l.Maker.Alive() {
			return Starting
		}
		return Incomplete
	}
	for name, want := range l.inums() {
		if inum, err := netnsInum(netnsPath(name)); err != nil || inum != want {
			return Incomplete
		}
	}
	return Running
}

// List returns the labs on this machine, sorted by name. The error says also which could not be read; the others are
// returned all the same.
func List() ([]*Lab, error) {
	entries, err := os.ReadDir(stateDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var labs []*Lab
	var failed []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || CheckName(name) != nil {
			continue
		}
		l, err := Get(name)
		if errors.Is(err, ErrNotRunning) { // gone meanwhile
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		labs = append(labs, l)
	}
	return labs, errors.Join(failed...)
}

// save writes the state. With fresh set it fails with ErrExists if there is one.
func (l *Lab) save(fresh bool) error {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("write state of lab: %w", err)
	}
	if !fresh {
		if err := renameio.WriteFile(stateFile(l.Name), b, 0o600); err != nil {
			return fmt.Errorf("write state of lab: %w", err)
		}
		return nil
	}
	tmp, err := os.CreateTemp(stateDir(), ".new-*")
	if err != nil {
		return fmt.Errorf("write state of lab: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		// Unlike a rename, a link fails if the name is taken.
		err = os.Link(tmp.Name(), stateFile(l.Name))
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("lab %q: %w", l.Name, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("write state of lab: %w", err)
	}
	return nil
}

// Node returns the machine with that name, or nil.
func (l *Lab) Node(machine string) *Node {
	for i := range l.Machines {
		if l.Machines[i].Name == machine {
			return &l.Machines[i]
		}
	}
	return nil
}

// NetNSPath is where the namespace of a machine can be opened.
func (l *Lab) NetNSPath(machine string) string { return netnsPath(l.netnsName(machine)) }

// AttachArgs are the arguments for "radar attach" that attach every machine
// under its own name.
func (l *Lab) AttachArgs() []string {
	args := make([]string, len(l.Machines))
	for i, m := range l.Machines {
		args[i] = m.Name + "=netns:" + m.NetNS
	}
	return args
}

// Command returns a command that runs argv in the namespace of a machine, which
// must exist. It is not started; the process that it starts is argv's own.
func (l *Lab) Command(ctx context.Context, machine string, argv ...string) *exec.Cmd {
	// Not "ip netns exec", which mounts another /sys, without /sys/fs/bpf.
	args := append([]string{"--net=" + l.NetNSPath(machine), "--"}, argv...)
	return exec.CommandContext(ctx, "nsenter", args...)
}

// Exec replaces the calling process by argv in the namespace of a machine.
// Terminal, signals and exit status become the command's own. It returns only
// if it fails; the error is an *exec.Error if it is the command that cannot be run.
func (l *Lab) Exec(machine string, argv []string) error {
	if l.Node(machine) == nil {
		return fmt.Errorf("lab %s has no machine %q: it has %s", l.Name, machine, strings.Join(l.machineNames(), ", "))
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	ns, err := netns.GetFromPath(l.NetNSPath(machine))
	if err != nil {
		return fmt.Errorf("open network namespace of %s: %w", machine, err)
	}
	defer ns.Close()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer home.Close()
	runtime.LockOSThread()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace of %s: %w", machine, err)
	}
	err = syscall.Exec(path, argv, os.Environ())
	if netns.Set(home) == nil {
		runtime.UnlockOSThread()
	}
	return fmt.Errorf("run %s: %w", path, &exec.Error{Name: path, Err: err})
}

func (l *Lab) machineNames() []string {
	names := make([]string, len(l.Machines))
	for i, m := range l.Machines {
		names[i] = m.Name
	}
	return names
}
