// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// dumpLineRE is a line of a dump: where it begins in the packet, a colon as xxd and tcpdump have it, and what stands
// there. Lines of tcpdump are indented.
var dumpLineRE = regexp.MustCompile(`^\s*(0[xX])?([0-9a-fA-F]{4,8})(:?)[ \t]+(\S.*)$`)

// dumpEndRE is the last line of hexdump -C, which has no bytes.
var dumpEndRE = regexp.MustCompile(`^[0-9a-fA-F]{7,8}$`)

// isDump reports whether a line begins with the offset 0, as a dump does, and no other hex digits: those of a packet
// that begins with zeros have no colon behind four of them, and are no two or more spaces away from others.
func isDump(line string) bool {
	m := dumpLineRE.FindStringSubmatch(line)
	if m == nil || strings.Trim(m[2], "0") != "" {
		return false
	}
	behind := line[strings.Index(line, m[2])+len(m[2]):]
	return m[3] != "" || strings.HasPrefix(behind, "  ")
}

// undump makes hex digits of a dump with offsets, as xxd, tcpdump -x and -X, hexdump -C and Wireshark print it. What is
// none is returned as it is. Lines before the dump, which describe the packet, are passed over.
func undump(text string) (string, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	begin := 0
	for begin < len(lines) && !isDump(lines[begin]) {
		begin++
	}
	if begin == len(lines) {
		return text, nil
	}
	var digits strings.Builder
	for i, line := range lines[begin:] {
		if strings.TrimSpace(line) == "" || dumpEndRE.MatchString(line) {
			continue
		}
		m := dumpLineRE.FindStringSubmatch(line)
		if m == nil || i > 0 && isDump(line) {
			return "", fmt.Errorf("line %d begins another packet: give one (capture files: -r FILE)", begin+i+1)
		}
		at, err := strconv.ParseUint(m[2], 16, 32)
		if have := digits.Len() / 2; err != nil || int(at) != have {
			return "", fmt.Errorf("line %d says that it begins at byte 0x%s of the packet, and 0x%x bytes stand before it", begin+i+1, m[2], have)
		}
		digits.WriteString(bytesOfLine(m[4], m[3] != ""))
	}
	return digits.String(), nil
}

// bytesOfLine are the hex digits of a line behind its offset, without the characters that some print beside them. These
// stand behind a bar, or further away: two spaces with a colon behind the offset, else three, as two are a gap between
// eight bytes and eight.
func bytesOfLine(line string, colon bool) string {
	line, _, _ = strings.Cut(line, "|")
	gap := "   "
	if colon {
		gap = "  "
	}
	line, _, _ = strings.Cut(strings.ReplaceAll(line, "\t", "   "), gap)
	return strings.Join(strings.Fields(line), "")
}
