// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is one that radar can use.
type Capability struct {
	Bit  uint // of the kernel's sets
	Name string
	// Needed says what for; "" if SYS_ADMIN stands in for it.
	Needed string
	// Without says what is missing without it, for those that are not needed.
	Without string
}

// Capabilities are all that radar can use.
var Capabilities = []Capability{
	{Bit: unix.CAP_SYS_ADMIN, Name: "CAP_SYS_ADMIN", Needed: "enter network namespaces, mount the BPF file system, load programs"},
	{Bit: unix.CAP_NET_ADMIN, Name: "CAP_NET_ADMIN", Needed: "attach programs to interfaces"},
	{Bit: unix.CAP_NET_BROADCAST, Name: "CAP_NET_BROADCAST", Needed: "notice changes of nodes and of their rules at once"},
	{Bit: unix.CAP_SYS_PTRACE, Name: "CAP_SYS_PTRACE", Without: "containers, machines of labs and other processes cannot be attached: docker:, kathara:, pid:"},
	{Bit: unix.CAP_SYSLOG, Name: "CAP_SYSLOG", Without: "kernel functions where packets are lost may have no name"},
}

// EffectiveCaps returns the capabilities of this process, as the kernel's bits.
func EffectiveCaps() (uint64, error) {
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

// MissingCaps returns what is needed and not held; caps are the kernel's bits.
func MissingCaps(caps uint64) []Capability {
	var missing []Capability
	for _, c := range Capabilities {
		if c.Needed != "" && caps&(1<<c.Bit) == 0 {
			missing = append(missing, c)
		}
	}
	return missing
}

// MissingRights explains to the user why the kernel said EPERM or EACCES: it names
// the capabilities that are needed and missing.
func MissingRights() string {
	caps, err := EffectiveCaps()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, c := range MissingCaps(caps) {
		names = append(names, c.Name)
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

// LacksRights reports whether this process lacks a capability that radar needs.
func LacksRights() bool {
	caps, err := EffectiveCaps()
	return err == nil && len(MissingCaps(caps)) > 0
}
