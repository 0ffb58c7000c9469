// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestDumps: what tools print of bytes is read as these bytes, of which offsets and characters are none.
func TestDumps(t *testing.T) {
	packet := []byte("\x00\x00\x00\x00\x00\x00\x45\x00ab cd 67 |x  12 34 89 is what a payload may have in it, 67")
	for _, c := range []struct {
		name string
		args []string
	}{{"xxd", []string{"xxd"}}, {"xxd", []string{"xxd", "-g1"}}, {"hexdump", []string{"hexdump", "-C"}}} {
		for n := 1; n <= len(packet); n++ {
			need.Programs(t, c.name)
			cmd := exec.Command(c.args[0], c.args[1:]...)
			cmd.Stdin = bytes.NewReader(packet[:n])
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := parseHex(string(out)); err != nil || !bytes.Equal(got, packet[:n]) {
				t.Fatalf("%v of %d bytes: %x, %v\n%s", c.args, n, got, err, out)
			}
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"tcpdump -X": {"08:59:45.685513 IP 10.0.1.1.54398 > 10.0.4.2.5001: UDP, length 54\n\t0x0000:  4500 0020 0000 4000 4011 2ac9 0a00 0101  E.......@.*.....\n" +
			"\t0x0010:  0a00 0402                                ....\n", "450000200000400040112ac90a0001010a000402"},
		"tcpdump -x": {"\t0x0000:  4500 0020 0000 4000 4011 2ac9 0a00 0101\n\t0x0010:  0a00 04", "450000200000400040112ac90a0001010a0004"},
		"Wireshark":  {"0000   45 00 00 20 00 00 40 00 40 11 2a c9 0a 00 01 01   E.. ..@.@.*.....\n0010   0a 00 04 67                                       ...g\n", "450000200000400040112ac90a0001010a000467"},
		"no dump":    {"00000000 45000020", "0000000045000020"},
		"words":      {"0x0000 0x4500", "00004500"},
	} {
		if got, err := parseHex(c.text); err != nil || c.want != strings.ToLower(hexOf(got)) {
			t.Errorf("%s: %x, %v, want %s", name, got, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"0x0000:  4500 0020\n0x0010:  0a00":                     "line 2 says that it begins at byte 0x0010 of the packet, and 0x4 bytes stand before it",
		"\t0x0000:  4500\n09:00 IP a > b\n\t0x0000:  4500 0020": "another packet",
		"0x0000:  4500\n0x0000:  4500":                          "another packet",
	} {
		if _, err := parseHex(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func hexOf(b []byte) (text string) {
	const digits = "0123456789abcdef"
	for _, x := range b {
		text += string(digits[x>>4]) + string(digits[x&15])
	}
	return text
}

// TestIPDump: who gives what tcpdump -x prints learns that it has no link-layer header.
func TestIPDump(t *testing.T) {
	const dump = "0x0000:  4500 001c 0000 4000 4011 2ac9 0a00 0101\n0x0010:  0a00 0402 0001 0002 0008 0000"
	if _, stderr, code := clitest.Radar(t, "int", "decode", dump); code != kit.ExitOK || !strings.Contains(stderr, "--starts-at ip") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := clitest.Radar(t, "int", "decode", "--starts-at", "ip", dump); code != kit.ExitOK || stderr != "" {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// TestDirectories: a directory, or a file, in the place of something else is named, with what to do.
func TestDirectories(t *testing.T) {
	file := clitest.ReportsFile(t) + ".pcap"
	dir := filepath.Dir(file)
	if err := os.Rename(strings.TrimSuffix(file, ".pcap"), file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"int", "decode", "-r", dir}, kit.ExitUsage, dir + " is a directory: give a capture file, such as " + file},
		{[]string{"collect", "-r", dir}, kit.ExitUsage, dir + " is a directory: give a capture file"},
		{[]string{"int", "decode", dir}, kit.ExitFailure, "is a directory: give hex digits"},
		{[]string{"int", "decode", file}, kit.ExitFailure, file + " is a file: give hex digits, or -r " + file},
	} {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
		if stdout, stderr, code := clitest.Radar(t, c.args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: code %d, want %q\n%s%s", c.args, code, c.want, stdout, stderr)
		}
	}
}
