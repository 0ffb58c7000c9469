// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is one that radar can use.
type capability struct {
	bit  uint
	name string
	// needed says what for; "" if SYS_ADMIN stands in for it.
	needed string
	// without says what is missing without it, for those that are not needed.
	without string
}

var capabilities = []capability{
	{bit: unix.CAP_SYS_ADMIN, name: "CAP_SYS_ADMIN", needed: "enter network namespaces, mount the BPF file system, load programs"},
	{bit: unix.CAP_NET_ADMIN, name: "CAP_NET_ADMIN", needed: "attach programs to interfaces"},
	{bit: unix.CAP_NET_BROADCAST, name: "CAP_NET_BROADCAST", needed: "notice changes of nodes and of their rules at once"},
	{bit: unix.CAP_SYS_PTRACE, name: "CAP_SYS_PTRACE", without: "containers, machines of labs and other processes cannot be attached: docker:, kathara:, pid:"},
	{bit: unix.CAP_SYSLOG, name: "CAP_SYSLOG", without: "kernel functions where packets are lost may have no name"},
}

// effectiveCaps returns the capabilities of this process, as the kernel's bits.
func effectiveCaps() (uint64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return parseCaps(string(b))
}

func parseCaps(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return 0, fmt.Errorf("read capabilities: %w", err)
			}
			return caps, nil
		}
	}
	return 0, fmt.Errorf("read capabilities: no CapEff in /proc/self/status")
}

// missingCaps returns what is needed and not held.
func missingCaps(caps uint64) []capability {
	var missing []capability
	for _, c := range capabilities {
		if c.needed != "" && caps&(1<<c.bit) == 0 {
			missing = append(missing, c)
		}
	}
	return missing
}

// MissingRights explains to the user why the kernel said EPERM or EACCES: it names
// the capabilities that are needed and missing.
func MissingRights() string {
	caps, err := effectiveCaps()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, c := range missingCaps(caps) {
		names = append(names, c.name)
	}
	if len(names) == 0 {
		return "the kernel refuses although no capability is missing (seccomp, lockdown or a security module?)"
	}
	what := "run as root"
	if os.Geteuid() == 0 {
		what = "root without it: in a container, start that with --privileged --pid=host"
	}
	return "missing " + strings.Join(names, ", ") + ": " + what
}

// LacksRights says whether this process lacks a capability that radar needs.
func LacksRights() bool {
	caps, err := effectiveCaps()
	return err == nil && len(missingCaps(caps)) > 0
}
