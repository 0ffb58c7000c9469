// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// environment is a machine, or a user, that has less than radar likes.
type environment struct {
	name   string
	within []string
	flags  []string
	// refused: what one line says, and the exit code; "": it works, with less.
	refused string
	code    int
	warning string // of attach
	// lost: packets that a rule drops are lost, not expired.
	lost   bool
	always bool // in the tier "test", too
}

// mounts is a shell command in a mount namespace of its own, before the real one.
func mounts(script string) []string {
	return []string{"unshare", "--mount", "sh", "-ec", script + `; exec "$@"`, "sh"}
}

// without some capabilities, which must not come back by exec.
func without(caps string) []string {
	caps = "-" + strings.ReplaceAll(caps, ",", ",-")
	return []string{"setpriv", "--bounding-set", caps, "--inh-caps", caps}
}

const exitFailure, exitUnsupported = 1, 3

// environmentTimeout is longer than a machine stands still, and short, since where there is no
// BTF the test waits for it.
const environmentTimeout = "8s"

var environments = []environment{
	{name: "nothing missing", lost: true},
	{name: "no BTF", within: mounts("mount -t tmpfs none /sys/kernel/btf"), warning: "losses are found by timeout, without reasons", always: true},
	{name: "no TCX", flags: []string{"--hook", "clsact"}, lost: true, always: true},
	{name: "read-only /sys", within: mounts("mount -o remount,bind,ro /sys"), lost: true},
	{
		name: "read-only /sys/fs/bpf", within: mounts("mount -o remount,bind,ro /sys/fs/bpf"),
		refused: "read-only file system", code: exitFailure,
	},
	{
		name: "no bpffs", within: mounts("umount -l /sys/fs/bpf"),
		refused: "no BPF file system at /sys/fs/bpf", code: exitUnsupported,
	},
	{ // CAP_SYS_ADMIN stands in for CAP_BPF
		name:   "no CAP_BPF, CAP_SYSLOG and CAP_SYS_RESOURCE, 64 KiB of locked memory, 64 descriptors",
		within: append([]string{"prlimit", "--memlock=65536:65536", "--nofile=64:64"}, without("bpf,syslog,sys_resource")...), lost: true,
	},
	{name: "no CAP_BPF and CAP_SYS_ADMIN", within: without("bpf,sys_admin"), refused: "missing CAP_SYS_ADMIN", code: exitUnsupported},
	{name: "no CAP_NET_ADMIN", within: without("net_admin"), refused: "missing CAP_NET_ADMIN", code: exitUnsupported},
	{name: "16 descriptors", within: []string{"prlimit", "--nofile=16:16"}, refused: "too many open files", code: exitFailure},
	{
		name: "read-only state directory", within: []string{"env", "RADAR_STATE_DIR=/proc/radar"},
		refused: "state directory (RADAR_STATE_DIR names another)", code: exitFailure,
	},
}

// TestEnvironments: radar measures with what there is, and says what is missing; or one
// line says why it does not, and nothing is attached.
func TestEnvironments(t *testing.T) {
	sideBySide(t)
	net := startNetwork(lifetime(t), t, "chain")
	net.nft(t, "r2", "table ip lab { chain forward { type filter hook forward priority 0; udp dport 9999 drop; }; }")
	report := &oracle.Report{Title: "less than radar likes: it works with what there is, or one line says why not and nothing is left"}
	for _, e := range environments {
		t.Run(e.name, func(t *testing.T) {
			if e.refused == "" && !e.always { // those that are refused take no time
				need.Nightly(t)
			}
			row := &oracle.Row{Check: e.name, Compared: 1, Note: "works"}
			switch {
			case e.refused != "":
				row.Note = "refused: ... " + e.refused + " ..."
			case e.warning != "":
				row.Note += ": " + e.warning
			}
			report.Add(row)
			defer func() { row.Wrong = failures(t) }()
			rad := net.domain(t, routers(net.nodes()))
			rad.within = e.within
			out, err := rad.both(net.attachArgs(rad.nodes, append(e.flags, "--timeout", environmentTimeout)...)...)
			if e.refused != "" {
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.ExitCode() != e.code || !strings.Contains(out, e.refused) || strings.Count(out, "\n") > 1 {
					t.Errorf("%v, want exit code %d and one line with %q:\n%s", err, e.code, e.refused, out)
				}
				net.wantNothingLeft(t, rad)
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(out, e.warning) {
				t.Errorf("no warning %q in\n%s", e.warning, out)
			}
			net.run(t, "h1", "ping", "-q", "-c", "10", "-i", "0.01", "10.0.4.2")
			net.sendUDP(t, udpFlow{from: "h1", to: "h2", dport: 9999, sizes: []int{100}, count: 10, gap: time.Millisecond})
			rad.within = nil
			net.carried(t)
			s := rad.settle(t)
			lost, expired := 10, 0
			if !e.lost {
				lost, expired = expired, lost
			}
			if s.Totals.Delivered+s.Totals.Left != 20 || s.Totals.Lost != lost || s.Totals.Expired != expired || s.Totals.Unaccounted != 0 {
				t.Errorf("want 20 delivered or left, %d lost, %d expired: %+v", lost, expired, s.Totals)
			}
			rad.within = e.within
			rad.run(t, "detach")
			net.wantNothingLeft(t, rad)
		})
	}
	keepReport(t, report)
}

// failures of a test, as a row counts them.
func failures(t *testing.T) int {
	if t.Failed() {
		return 1
	}
	return 0
}

// wantNothingLeft looks for files, pins, qdiscs, filters and programs.
func (n *network) wantNothingLeft(t *testing.T, r *radar) {
	t.Helper()
	for _, path := range []string{domain.Dir(r.domain), domain.PinDir(r.domain)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	n.wantNoPrograms(t, r)
}

// wantNoPrograms looks for clsact qdiscs and TCX programs at every interface.
func (n *network) wantNoPrograms(t *testing.T, r *radar) {
	t.Helper()
	for _, node := range r.nodes {
		err := n.within(node, func() error {
			links, err := netlink.LinkList()
			if err != nil {
				return err
			}
			for _, l := range links {
				qdiscs, err := netlink.QdiscList(l)
				if err != nil {
					return err
				}
				for _, q := range qdiscs {
					if q.Type() == "clsact" {
						t.Errorf("%s/%s has a clsact qdisc", node, l.Attrs().Name)
					}
				}
				for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
					list, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: at})
					if err != nil {
						return err
					}
					if len(list.Programs) > 0 {
						t.Errorf("%s/%s has %d programs (%s)", node, l.Attrs().Name, len(list.Programs), at)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("look into %s: %v", node, err)
		}
	}
}

// TestPermissions: nobody but root can open what a domain consists of.
func TestPermissions(t *testing.T) {
	net := startNetwork(lifetime(t), t, "chain")
	rad := net.attach(t, routers(net.nodes()))
	row := &oracle.Row{Check: "files and pins 0600, directories 0700"}
	for _, root := range []string{domain.Dir(rad.domain), domain.PinDir(rad.domain)} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = 0o700
			}
			if got := info.Mode().Perm(); got != want {
				row.Wrong++
				t.Errorf("%s: mode %o, want %o", path, got, want)
			}
			row.Compared++
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if row.Compared < 20 {
		t.Errorf("%d files, directories and pins looked at: where are they?", row.Compared)
	}
	keepReport(t, &oracle.Report{Title: "who can open what a domain consists of", Rows: []*oracle.Row{row}})
}

// TestPathsTaken: something else is where radar wants to put its state or its pins. One
// line says what and where; it is not touched, and nothing is attached. Pins are tried in a
// BPF file system of their own.
func TestPathsTaken(t *testing.T) {
	need.Programs(t, "bpftool")
	net := startNetwork(lifetime(t), t, "chain")
	report := &oracle.Report{Title: "something else where radar puts its state and pins: one line says so, it stays, nothing is attached"}
	for _, c := range []struct {
		name string
		// state and pins are shell commands that put something into $STATE (and $PINS, with
		// $MAP, a pinned map), under the name of $DOMAIN.
		state, pins string
		want        []string
	}{
		{"state directory of another user", "mkdir -m 700 $STATE/$DOMAIN; chown 65534 $STATE/$DOMAIN", "", []string{"$STATE/$DOMAIN belongs to user 65534"}},
		{"state directory in one of another user", "chown 65534 $STATE", "", []string{"$STATE belongs to user 65534"}},
		{"a link for the state directory", "mkdir $STATE/other; ln -s other $STATE/$DOMAIN", "", []string{"$STATE/$DOMAIN is a symbolic link"}},
		{"a link for the lock", "mkdir -m 700 $STATE/$DOMAIN; ln -s /dev/null $STATE/$DOMAIN/lock", "", []string{"$STATE/$DOMAIN/lock is a symbolic link"}},
		{"a directory for the description", "mkdir -m 700 -p $STATE/$DOMAIN/domain.json", "", []string{"$STATE/$DOMAIN/domain.json", "is a directory"}},
		{"pin directory of another user", "", "mkdir -p -m 700 $PINS; chown 65534 $PINS", []string{"$PINS belongs to user 65534"}},
		{"a link for the pin directory", "", "mkdir -p -m 700 $PINS; ln -s /sys/fs/bpf $PINS/$DOMAIN", []string{"$PINS/$DOMAIN is a symbolic link"}},
		{"a map for the pin directory", "", "mkdir -p -m 700 $PINS; mv $MAP $PINS/$DOMAIN", []string{"$PINS/$DOMAIN is no directory"}},
		{"a map of somebody in the pin directory", "", "mkdir -p -m 700 $PINS/$DOMAIN; mv $MAP $PINS/$DOMAIN/ring", []string{"is half attached", "radar detach --domain $DOMAIN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := t.TempDir()
			t.Setenv("RADAR_STATE_DIR", state)
			rad := net.domain(t, routers(net.nodes()))
			vars := map[string]string{"STATE": filepath.Dir(domain.Dir("x")), "DOMAIN": rad.domain, "PINS": filepath.Dir(domain.PinDir("x")), "MAP": "/sys/fs/bpf/map"}
			// List everything before and after: radar may have touched nothing. The directory of the kind goes with its last domain.
			list := "find " + state + " $PINS ! -path $STATE -printf '%p %y %m %U %l\n' 2>/dev/null | sort"
			script := os.Expand("mkdir -m 700 $STATE; mount -t bpf none /sys/fs/bpf; bpftool map create $MAP type array key 4 value 4 entries 1 name other;"+
				cmp.Or(c.state, "true")+";"+cmp.Or(c.pins, "true")+";"+list+" >"+state+".before; rc=0; \"$@\" || rc=$?;"+list+" >"+state+".after; exit $rc; :",
				func(name string) string {
					if v, ok := vars[name]; ok {
						return v
					}
					return "$" + name
				})
			rad.within = mounts(script)
			out, err := rad.both(net.attachArgs(rad.nodes)...)
			for _, want := range c.want {
				want = os.Expand(want, func(name string) string { return vars[name] })
				if err == nil || !strings.Contains(out, want) || strings.Count(out, "\n") > 1 {
					t.Errorf("%v, want one line with %q:\n%s", err, want, out)
				}
			}
			var lists [2]string
			for i, when := range []string{".before", ".after"} {
				b, err := os.ReadFile(state + when)
				if err != nil {
					t.Fatal(err)
				}
				lists[i] = strings.TrimSpace(string(b))
			}
			if lists[0] == "" || lists[0] != withoutOurs(lists[0], lists[1]) {
				t.Errorf("before:\n%s\nafter:\n%s", lists[0], lists[1])
			}
			net.wantNoPrograms(t, rad)
			row := &oracle.Row{Check: c.name, Compared: 1, Wrong: failures(t), Note: "refused: ... " + strings.Join(c.want, " ... ") + " ..."}
			report.Add(row)
		})
	}
	keepReport(t, report)
}

// withoutOurs takes out of a list of files the locks and empty directories that an attach
// which was refused may leave.
func withoutOurs(before, after string) string {
	var kept []string
	for _, line := range strings.Split(after, "\n") {
		path, _, _ := strings.Cut(line, " ")
		if strings.Contains(before, line) || !strings.HasSuffix(path, "/lock") && strings.Contains(before, path+" ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
