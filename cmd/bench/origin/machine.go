// SPDX-License-Identifier: Apache-2.0

// Package origin says where figures are from: the machine, the commit, the programs that
// were measured; and whether figures that a page has are of these programs.
package origin

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Unknown is a commit that nobody says.
const Unknown = "unknown"

// Commit is what the tree says that it is, where there is git and a repository.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return Unknown
	}
	return strings.TrimSpace(string(out))
}

// Kernel is its number, without what a distribution or a host adds to that.
func Kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	number, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return number
}

// CPU is the model's name.
func CPU() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	return modelName(string(text))
}

// modelName finds the CPU's name in the text of /proc/cpuinfo.
func modelName(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// LoadAverage of the last minute.
func LoadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
