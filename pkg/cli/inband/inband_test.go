// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// within says whether got has everything that want has, lists as they are.
func within(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, v := range w {
			if have, ok := g[name]; !ok || !within(v, have) {
				return false
			}
		}
		return g != nil
	case []any:
		g, ok := got.([]any)
		for i := range w {
			if !ok || len(g) != len(w) || !within(w[i], g[i]) {
				return false
			}
		}
		return ok && len(g) == len(w)
	}
	return reflect.DeepEqual(want, got)
}

// Every example through the command, without a profile: its values, and exit code 0.
func TestIntDecodeFrames(t *testing.T) {
	for _, f := range clitest.Frames(t) {
		t.Run(f.Name, func(t *testing.T) {
			stdout, stderr, code := clitest.Radar(t, "int", "decode", "-o", "json", f.Hex)
			var got map[string]any
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != kit.ExitOK || stderr != "" {
				t.Fatalf("code %d, stderr %q, %v in %q", code, stderr, err, stdout)
			}
			if !within(f.Expected, got) {
				t.Errorf("got %s\nwant %v", stdout, f.Expected)
			}
			if _, ok := got["anomalies"].([]any); !ok || strings.Count(stdout, "\n") != 1 {
				t.Errorf("no list of anomalies, or more than a line: %q", stdout)
			}
			for _, format := range []string{"table", "wide"} {
				if stdout, stderr, code := clitest.Radar(t, "int", "decode", "-o", format, f.Hex); code != kit.ExitOK || stderr != "" || stdout == "" {
					t.Errorf("-o %s: code %d, stderr %q, stdout %q", format, code, stderr, stdout)
				}
			}
		})
	}
}

const intSmall = "c1231388002800001807000620000206900000000000000000000002010001230000000100000045"

// However it is written, from arguments or standard input, it is the same packet.
func TestIntDecodeHex(t *testing.T) {
	want, _, _ := clitest.Radar(t, "int", "decode", "-o", "json", "--starts-at", "udp", intSmall)
	if !strings.Contains(want, `"hops_top_first":[{"node_id":2,"queue_id":1,"queue_occ":291},{"node_id":1,"queue_id":0,"queue_occ":69}]`) {
		t.Fatal(want)
	}
	var colons, prefixed []string
	for i := 0; i < len(intSmall); i += 2 {
		colons = append(colons, intSmall[i:i+2])
	}
	for i := 0; i < len(intSmall); i += 4 {
		prefixed = append(prefixed, "0x"+strings.ToUpper(intSmall[i:i+4]))
	}
	flags := []string{"int", "decode", "-o", "json", "--starts-at", "udp"}
	for name, args := range map[string][]string{
		"colons":         {strings.Join(colons, ":")},
		"words":          prefixed,
		"0x, commas":     {strings.Join(prefixed, ", ")},
		"lines":          {strings.Join(colons[:16], " ") + "\n" + strings.Join(colons[16:], "\t") + "\r\n"},
		"0x of it all":   {"0x" + intSmall},
		"standard input": {"-"},
	} {
		var out, errs bytes.Buffer
		stdin := strings.NewReader(strings.Join(colons, " ") + "\n")
		if code := clitest.Run(context.Background(), append(flags[:len(flags):len(flags)], args...), stdin, &out, &errs); code != kit.ExitOK || out.String() != want {
			t.Errorf("%s: code %d, %s%s", name, code, errs.String(), out.String())
		}
	}
}

// The exit code says whether the input could be read, not what it held.
func TestIntDecodeExitCodes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("this is no capture at all, in spite of its length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string // in stderr, or in stdout if the code is 0
	}{
		{"00", kit.ExitOK, "the link-layer header is cut: 1 of 14 bytes"},
		{strings.Repeat("00", 200), kit.ExitOK, "no IPv4 or IPv6"},
		{"--starts-at ip 45", kit.ExitOK, "the packet is cut"},
		{"--starts-at udp 0000000000080000", kit.ExitOK, "no INT and no telemetry report found"},
		{"--starts-at udp --profile spec-1.0 " + intSmall, kit.ExitOK, "does not look like the profile"},
		{"zz", kit.ExitFailure, `'z' is no hex digit (in "zz")`},
		{"0x12 3", kit.ExitFailure, "3 of them are no whole bytes"},
		{"-", kit.ExitFailure, "standard input: there are none"},
		{"-r " + none, kit.ExitFailure, "no such file"},
		{"-r " + text, kit.ExitFailure, "neither pcap nor pcapng"},
		{"-r -", kit.ExitFailure, "too short for a capture"},
		{"", kit.ExitUsage, "nothing to decode"},
		{"-r x 00", kit.ExitUsage, "use one of them"},
		{"-r x --starts-at ip", kit.ExitUsage, "--starts-at is for hex digits"},
		{"--starts-at tcp 00", kit.ExitUsage, `unknown layer "tcp": use ethernet, ip, udp`},
		{"--profile cisco 00", kit.ExitUsage, `unknown profile "cisco": use spec-2.1, spec-1.0`},
		{"-o csv 00", kit.ExitUsage, "no CSV"},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"int", "decode"}, strings.Fields(c.args)...)...)
		said := stderr
		if c.code == kit.ExitOK {
			said = stdout
		}
		if code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%s: code %d, stderr %q, stdout %q", c.args, code, stderr, stdout)
		}
	}
}

// Standard input that is no packet is refused, not cut.
func TestIntDecodeLongInput(t *testing.T) {
	var out, errs bytes.Buffer
	code := clitest.Run(context.Background(), []string{"int", "decode", "-"}, strings.NewReader(strings.Repeat("00", 1<<19)+"\n"), &out, &errs)
	if want := "longer than 1048576 bytes"; code != kit.ExitFailure || !strings.Contains(errs.String(), want) || out.Len() > 0 {
		t.Errorf("code %d, stderr %q, want %q, and %d bytes in stdout", code, errs.String(), want, out.Len())
	}
}

// The profile is a flag like others: from the environment too, and the flag wins.
func TestIntDecodeProfile(t *testing.T) {
	onos := fmt.Sprintf("%x", clitest.FrameBytes(t, "onos-basic-int-report"))
	for _, c := range []struct{ env, flag, want string }{
		{"", "", `"profile":"onos-basic"`},
		{"spec-1.0", "", `"profile":"spec-1.0"`},
		{"spec-1.0", "onos-basic", `"profile":"onos-basic"`},
	} {
		t.Setenv("RADAR_PROFILE", c.env)
		args := []string{"int", "decode", "-o", "json", onos}
		if c.flag != "" {
			args = append(args, "--profile", c.flag)
		}
		if stdout, stderr, code := clitest.Radar(t, args...); code != kit.ExitOK || !strings.Contains(stdout, c.want) {
			t.Errorf("%+v: code %d, %s%s", c, code, stderr, stdout)
		}
	}
}

// What people see: lines for headers, a table of hops, anomalies last.
func TestIntDecodeTable(t *testing.T) {
	stdout, _, _ := clitest.Radar(t, "int", "decode", fmt.Sprintf("%x", clitest.FrameBytes(t, "tr20-ex-embedded-int-md")))
	if want := `PROFILE    spec-2.1 (INT 2.0 and 2.1, Telemetry Report 2.0), found by port 32766
PACKET     10.9.0.3:0 > 10.9.9.9:32766 udp, TTL 64, DSCP 0x00
GROUP      version 2, hw_id 1, sequence 7, node_id 3
REPORT 1   rep_type 1, in_type 4, report_length 23, md_length 1, F 1, rep_md_bits 0x1000, queue_id 2, queue_occ 7
  EMBEDDED carrier udp
    SHIM   type 1, length_words 7, npt 2, ip_proto 6
    HEADER version 2, hop_ml 2, remaining_hop_count 6, instruction_bitmap 0x9000
    HOPS   newest first; hop 1 is next to the source
           HOP  NODE_ID  QUEUE_ID  QUEUE_OCC
             2        2         1        291
             1        1         0         69
`; stdout != want {
		t.Errorf("got\n%s\nwant\n%s", stdout, want)
	}
	stdout, _, _ = clitest.Radar(t, "int", "decode", "-o", "wide", fmt.Sprintf("%x", clitest.FrameBytes(t, "int21-edge-no-hops")))
	for _, want := range []string{"INT        carrier udp\n", "D 0, E 0, M 0", "domain_specific_id 0x0000", "HOPS       none\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// Captures of both formats and of every link type that is read.
func TestIntDecodeCapture(t *testing.T) {
	report := clitest.FrameBytes(t, "geant-bmv2-report")
	plain := clitest.FrameBytes(t, "tr05-local")[:14+20+8+12]
	cooked := append([]byte{0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0}, report[14:]...)
	cooked2 := append([]byte{8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, report[14:]...)
	for _, c := range []struct {
		link   layers.LinkType
		packet []byte
	}{{1, report}, {101, report[14:]}, {228, report[14:]}, {113, cooked}, {276, cooked2}} {
		for _, ng := range []bool{false, true} {
			stdout, stderr, code := clitest.Radar(t, "int", "decode", "-o", "json", "-r", clitest.Capture(t, ng, c.link, c.packet, c.packet))
			lines := strings.Split(strings.TrimSpace(stdout), "\n")
			if code != kit.ExitOK || len(lines) != 2 || !strings.HasPrefix(lines[1], `{"frame":2,"time":"2026-11-18T11:06:41.123456789Z","profile":"geant"`) {
				t.Errorf("link type %d, pcapng %v: code %d, %s%s", c.link, ng, code, stderr, stdout)
			}
		}
	}
	path := clitest.Capture(t, false, 1, report, plain)
	stdout, _, code := clitest.Radar(t, "int", "decode", "-r", path)
	if code != kit.ExitOK || !strings.Contains(stdout, "FRAME      1, 2026-11-18") || !strings.HasSuffix(stdout, "\n2 packets, 2 with INT or a report\n") {
		t.Errorf("code %d, %s", code, stdout)
	}
	// From standard input, and cut in the second packet: the first is shown, then the failure.
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = clitest.Run(context.Background(), []string{"int", "decode", "-o", "json", "-r", "-"}, bytes.NewReader(b[:len(b)-10]), &out, &errs)
	if code != kit.ExitFailure || strings.Count(out.String(), "\n") != 1 || !strings.Contains(errs.String(), "packet 2:") {
		t.Errorf("code %d, %s%s", code, errs.String(), out.String())
	}
	if _, stderr, code := clitest.Radar(t, "int", "decode", "-r", clitest.Capture(t, false, 105, report)); code != kit.ExitFailure || !strings.Contains(stderr, "is none that is read") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// Profiles and layers are completed.
func TestIntDecodeCompletion(t *testing.T) {
	for args, want := range map[string]string{"--profile=": "host-int\t", "--starts-at=": "ethernet\nip\nudp\n"} {
		if stdout, _, code := clitest.Radar(t, "__complete", "int", "decode", args); code != kit.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, %s", args, code, stdout)
		}
	}
}
