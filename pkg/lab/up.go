// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// DefaultScriptTimeout is how long the startup scripts may take.
const DefaultScriptTimeout = time.Minute

// Options of Up. The zero value is fine.
type Options struct {
	Name string // of the lab, instead of the topology's
	// KeepGoing runs scripts as Kathará does: a command that fails does not end
	// its script. A script that ends with an error is a warning then.
	KeepGoing     bool
	ScriptTimeout time.Duration     // for all scripts together; 0: DefaultScriptTimeout
	Warn          func(text string) // called from one goroutine; nil: warnings are dropped
}

// Up starts a lab and returns when all its startup scripts have ended. If
// anything fails, or ctx ends, everything made so far is removed. Without
// KeepGoing a script ends at the first command that fails, which is a
// *ScriptError. A name that is taken is ErrExists; a program that the lab needs
// and this machine has not is a *MissingError.
func Up(ctx context.Context, t *Topology, opts Options) (l *Lab, err error) {
	if opts.ScriptTimeout == 0 {
		opts.ScriptTimeout = DefaultScriptTimeout
	}
	if opts.Warn == nil {
		opts.Warn = func(string) {}
	}
	l = plan(t, opts.Name)
	if err := CheckName(l.Name); err != nil {
		return nil, err
	}
	if err := t.missing(l.Name); err != nil {
		return nil, err
	}
	if err := l.reserve(); err != nil {
		return nil, err
	}
	for _, w := range t.Warnings {
		opts.Warn(w)
	}
	if err := l.build(ctx, t, opts); err != nil {
		return nil, errors.Join(err, l.teardown())
	}
	return l, nil
}

// plan is the lab as it will be.
func plan(t *Topology, name string) *Lab {
	if name == "" {
		name = t.Name
	}
	self, _ := host.Self() // if /proc does not say, an interrupted start shows as such at once
	l := &Lab{
		Version:     stateVersion,
		Name:        name,
		Description: t.Description,
		Source:      t.Source,
		Created:     time.Now().UTC().Truncate(time.Millisecond),
		Status:      Starting,
		Links:       slices.Clone(t.Links),
		Maker:       self,
	}
	for _, m := range t.Machines {
		l.Machines = append(l.Machines, Node{Name: m.Name, NetNS: l.netnsName(m.Name)})
	}
	if slices.ContainsFunc(t.Links, func(k Link) bool { return k.Kind != Direct }) {
		l.LinksNetNS = name + ".links"
	}
	return l
}

// reserve takes the name of the lab. From then on "down" finds it, even if this
// process is killed.
func (l *Lab) reserve() error {
	if err := statedir.MakeInRoot(stateDir()); err != nil {
		return err
	}
	if err := prepareNetnsDir(); err != nil {
		return err
	}
	if old, err := Get(l.Name); err == nil {
		return old.inTheWay()
	} else if !errors.Is(err, ErrNotRunning) {
		return err
	}
	for _, name := range l.namespaces() {
		if _, err := os.Lstat(netnsPath(name)); err == nil {
			return fmt.Errorf("network namespace %s is %w and not radar's: start the lab under another name, or remove it with: ip netns del %s",
				name, ErrExists, name)
		}
	}
	return l.save(true)
}

// inTheWay says why the lab cannot be started once more.
func (l *Lab) inTheWay() error {
	switch l.Status {
	case Starting:
		return fmt.Errorf("lab %q: %w by process %d", l.Name, ErrBusy, l.Maker.PID)
	case Incomplete:
		return fmt.Errorf("lab %q is %w, half made or half removed (%s): remove the rest with: «lab down %s»",
			l.Name, ErrExists, l.remains(), l.Name)
	}
	return fmt.Errorf("lab %q is %w, started %s: take it down with: «lab down %s»",
		l.Name, ErrExists, l.Created.Local().Format(time.DateTime), l.Name)
}

// remains names what is there of an incomplete lab.
func (l *Lab) remains() string {
	var there []string
	for _, name := range l.namespaces() {
		if _, err := os.Lstat(netnsPath(name)); err == nil {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return "no namespace is left"
	}
	return "there is " + strings.Join(there, ", ")
}

// build makes everything. The caller removes it if that fails.
func (l *Lab) build(ctx context.Context, t *Topology, opts Options) error {
	if err := os.Mkdir(l.dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create directory for logs: %w", err)
	}
	if err := l.share(t); err != nil {
		return err
	}
	if err := l.createNamespaces(ctx, t); err != nil {
		return err
	}
	if err := l.wire(ctx, t); err != nil {
		return err
	}
	if err := l.setUserSysctls(t); err != nil {
		return err
	}
	if err := l.runScripts(ctx, t, opts); err != nil {
		return err
	}
	l.Status, l.Maker = Running, host.Process{}
	return l.save(false)
}

// share writes the files that all machines see.
func (l *Lab) share(t *Topology) error {
	if len(t.Shared) == 0 {
		return nil
	}
	if err := os.Mkdir(l.sharedDir(), 0o700); err != nil {
		return fmt.Errorf("create folder for shared files: %w", err)
	}
	for name, text := range t.Shared {
		if err := os.WriteFile(filepath.Join(l.sharedDir(), name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write shared file: %w", err)
		}
	}
	return nil
}

func (l *Lab) createNamespaces(ctx context.Context, t *Topology) error {
	for i := range l.Machines {
		if err := context.Cause(ctx); err != nil {
			l.disown(i)
			return err
		}
		settings := machineSysctls(t.Machines[i].IPv6)
		inum, err := createNetNS(l.Machines[i].NetNS, func() error { return setSysctls(settings) })
		if err != nil {
			l.disown(i)
			return err
		}
		l.Machines[i].Inum = inum
	}
	if l.LinksNetNS == "" {
		return nil
	}
	inum, err := createNetNS(l.LinksNetNS, func() error { return setSysctls(noIPv6) })
	if err != nil {
		l.LinksNetNS = ""
		return err
	}
	l.LinksInum = inum
	return nil
}

// disown forgets the machines from i on: their namespaces have not been made,
// and one that has appeared under such a name is somebody else's.
func (l *Lab) disown(i int) {
	l.Machines = l.Machines[:i]
	l.LinksNetNS = ""
}

// setUserSysctls sets what lab.conf asks for, which may name interfaces.
func (l *Lab) setUserSysctls(t *Topology) error {
	for _, m := range t.Machines {
		if len(m.Sysctls) == 0 {
			continue
		}
		ns, err := netns.GetFromPath(l.NetNSPath(m.Name))
		if err != nil {
			return fmt.Errorf("machine %s: open network namespace: %w", m.Name, err)
		}
		err = host.InNetns(ns, func() error { return setSysctls(m.Sysctls) })
		ns.Close()
		if err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
	}
	return nil
}
