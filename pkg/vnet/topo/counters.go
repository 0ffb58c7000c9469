// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Counters of conntrack, beside those that nstat shows.
const (
	ConntrackDrop         = "ConntrackDrop"         // all packets that it has dropped
	ConntrackInsertFailed = "ConntrackInsertFailed" // among them those of connections that it could not note
)

// Counters are what the kernel itself has counted in the node since that began, by the names that nstat gives them,
// without those that are zero. A kernel without conntrack has none of its counters. ErrGone: the namespace is gone.
func (s NodeSpec) Counters() (counters map[string]uint64, err error) {
	counters = make(map[string]uint64)
	err = s.Do(func() error {
		for _, name := range []string{"snmp", "netstat"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				return err
			}
			addPairs(counters, text)
		}
		if text, err := os.ReadFile("/proc/thread-self/net/snmp6"); err == nil { // absent: no IPv6
			addLines(counters, text)
		}
		if text, err := os.ReadFile("/proc/thread-self/net/stat/nf_conntrack"); err == nil {
			addConntrack(counters, text)
		}
		return nil
	})
	return counters, err
}

func addCounter(to map[string]uint64, name, value string, base int) {
	if n, err := strconv.ParseUint(value, base, 64); err == nil && n > 0 {
		to[name] += n
	}
}

// addPairs reads pairs of lines, names and values: "Udp: InDatagrams NoPorts", "Udp: 7 0".
func addPairs(to map[string]uint64, text []byte) {
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(names) == 0 || len(words) == 0 || words[0] != names[0] {
			names = words
			continue
		}
		for i := 1; i < min(len(words), len(names)); i++ {
			addCounter(to, strings.TrimSuffix(names[0], ":")+names[i], words[i], 10)
		}
		names = nil
	}
}

// addLines reads a name and a value a line: "Udp6NoPorts 0".
func addLines(to map[string]uint64, text []byte) {
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 {
			addCounter(to, words[0], words[1], 10)
		}
	}
}

// addConntrack reads a line of names, and one of hexadecimal values for each CPU.
func addConntrack(to map[string]uint64, text []byte) {
	var names []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if names == nil {
			names = words
			continue
		}
		for i := range min(len(words), len(names)) {
			switch names[i] {
			case "drop":
				addCounter(to, ConntrackDrop, words[i], 16)
			case "insert_failed":
				addCounter(to, ConntrackInsertFailed, words[i], 16)
			}
		}
	}
}
