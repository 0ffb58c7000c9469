// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// intDecode runs the independent decoder (intdecode.py) on a capture file: one object per
// telemetry report, or per packet with --data. Numbers are json.Number, of full width.
func intDecode(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	need.Programs(t, "python3")
	// go test keeps results until a file changes that the test itself has looked at.
	for _, name := range []string{"intdecode.py", "intpackets.py"} {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("python3", append([]string{"-B", "intdecode.py"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("intdecode.py %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	var records []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.UseNumber()
	for decoder.More() {
		var record map[string]any
		if err := decoder.Decode(&record); err != nil {
			t.Fatalf("output of intdecode.py: %v", err)
		}
		records = append(records, record)
	}
	return records
}

// intFrame is an example of pkg/intwire/testdata/frames.json.
type intFrame struct {
	Name     string
	Hex      string
	Expected map[string]any
	Checks   map[string]struct{ OK bool }
	About    map[string]any
}

func readIntFrames(t *testing.T) []intFrame {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "intwire", "testdata", "frames.json"))
	if err != nil {
		t.Fatal(err)
	}
	var frames []intFrame
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&frames); err != nil {
		t.Fatal(err)
	}
	return frames
}

func (f *intFrame) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(f.Hex)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return b
}

// writePcap writes packets with the given header fields by hand: what the decoder is to read must not
// come from the project's own writer.
func writePcap(t *testing.T, order binary.ByteOrder, magic, link uint32, packets ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	word := func(v uint32) { binary.Write(&b, order, v) }
	word(magic)
	binary.Write(&b, order, [2]uint16{2, 4})
	for _, v := range []uint32{0, 0, 65535, link} {
		word(v)
	}
	for i, p := range packets {
		for _, v := range []uint32{uint32(i), 7, uint32(len(p)), uint32(len(p))} {
			word(v)
		}
		b.Write(p)
	}
	path := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	pcapMicroseconds, pcapNanoseconds = 0xa1b2c3d4, 0xa1b23c4d
	linkEthernet, linkRaw             = 1, 101
	linkSLL, linkSLL2                 = 113, 276
)

// intMarks are the marks that the examples use.
var intMarks = []string{"--dscp", "0x17", "--dscp", "0x20", "--int-port", "5000", "--int-port", "0x4568"}

// How each example is read. Strict examples have no problems; of those that depart from the text the
// independent decoder must say how.
var intExamples = map[string]struct {
	args     []string // further arguments; --data for packets that are no reports
	skip     string   // why the independent decoder leaves it out
	problems []string
	// Expected values that hold for the sender's reading of the layout alone.
	unlike []string
}{
	"int21-md-ipv4-udp-dscp":   {args: []string{"--data"}},
	"int21-md-ipv4-tcp-dscp":   {args: []string{"--data"}},
	"int21-md-ipv6-udp-port":   {args: []string{"--data"}},
	"int21-md-ipv4-gre":        {skip: "INT over GRE"},
	"int21-mx-ipv4-udp-dscp":   {skip: "INT-MX"},
	"int21-mx-ipv4-vxlan-gpe":  {skip: "INT-MX over VXLAN-GPE"},
	"int21-ex-md-newudp-npt2":  {args: []string{"--data"}},
	"int21-ex-md-geneve":       {skip: "INT over Geneve"},
	"int21-edge-no-hops":       {args: []string{"--data"}},
	"int10-md-tcp-dscp":        {args: []string{"--data"}},
	"tr20-ex-baseline-ipv4":    {},
	"tr20-ex-embedded-int-md":  {},
	"tr10-flow-embedded-int10": {},
	"tr05-local":               {skip: "Telemetry Report 0.5"},
	"fabric-tna-local-report":  {skip: "Telemetry Report 0.5"},
	"p4studio-switch-v2-drop":  {},
	"intcollector-e2e-p0": {
		args: []string{"--port", "54321"},
		problems: []string{"report: length 1 words, RepMdBits ask for 4",
			"1.0 has no port method", "INT header: version 0", "Hop ML is 8 words, the instructions ask for 9"},
		unlike: []string{"length_words_field", "hops_top_first"},
	},
	"geant-bmv2-report": {
		args:     []string{"--port", "8090"},
		problems: []string{"INT header: reserved bits", "Hop ML is 10 words, the instructions ask for 9"},
		unlike:   []string{"hops_top_first"},
	},
	"onos-basic-int-report": {problems: []string{"report: reserved bits",
		"INT header: version 0", "F is 0, the quoted packet carries INT"}},
	"hostint-report-ipv4":      {skip: "Telemetry Report 0.5"},
	"p4int-md-report":          {problems: []string{"report: length 0, main contents have 2 words"}},
	"ts-domain-report":         {},
	"incomplete-e-report":      {},
	"incomplete-cut-report":    {},
	"mmtdpi-int10-two-hops":    {args: []string{"--data"}},
	"mmtdpi-dscp-only-not-int": {args: []string{"--data"}},
}

// TestIndependentDecoderReadsExamples holds the decoder that other tests take for the truth to the
// examples of the specifications and of public implementations.
func TestIndependentDecoderReadsExamples(t *testing.T) {
	frames := readIntFrames(t)
	decoded := decodeExamples(t, frames)
	for _, frame := range frames {
		how, listed := intExamples[frame.Name]
		if !listed {
			t.Errorf("%s: say in intExamples how it is read", frame.Name)
			continue
		}
		t.Run(frame.Name, func(t *testing.T) {
			if how.skip != "" {
				t.Logf("intdecode.py does not read %s", how.skip) // and is not meant to
				return
			}
			records := decoded[frame.Name]
			if len(records) != 1 {
				t.Fatalf("%d records, want 1: %v", len(records), records)
			}
			record := records[0]
			compareProblems(t, record, how.problems)
			packet := record["packet"].(map[string]any)
			inner, _ := packet["int"].(map[string]any)
			got := map[string]any{"group": record["group"], "report": record["report"],
				"incomplete": inner["incomplete"], "shim": inner["shim"], "header": inner["header"], "hops_top_first": inner["hops_top_first"]}
			want := frame.Expected
			if list, ok := want["reports"].([]any); ok {
				want["report"] = list[0]
				delete(want, "reports")
			}
			if about, ok := frame.About["embedded"].(map[string]any); ok {
				for name, value := range about {
					want[name] = value
				}
			}
			if report, ok := want["report"].(map[string]any); ok {
				for name, value := range asObject(report["embedded"]) {
					want[name] = value
				}
				delete(report, "embedded")
				deleteAll(report, how.unlike)
			}
			deleteAll(want, how.unlike)
			compareSubset(t, "", want, got)
			if check, ok := frame.Checks["ip_checksum"]; ok && check.OK {
				compareSubset(t, "ip", map[string]any{"checksum": "right"}, packet["ip"])
			}
			if check, ok := frame.Checks["l4_checksum"]; ok && check.OK {
				compareSubset(t, "l4", map[string]any{"checksum": "right"}, packet["l4"])
			}
			if ids, ok := frame.About["node_ids_top_first"].([]any); ok {
				var hops []any
				for _, id := range ids {
					hops = append(hops, map[string]any{"node_id": id})
				}
				compareSubset(t, "hops", hops, inner["hops_top_first"])
			}
			if frame.Name == "mmtdpi-dscp-only-not-int" && inner != nil {
				t.Errorf("taken for INT: %v", inner)
			}
		})
	}
}

// decodeExamples returns the records of each example. Those that are read alike go into one
// file: most of the time Python starts. Their sequence numbers then have gaps, of which
// nothing is to be said.
func decodeExamples(t *testing.T, frames []intFrame) map[string][]map[string]any {
	t.Helper()
	groups := map[string][]intFrame{}
	for _, f := range frames {
		if how, listed := intExamples[f.Name]; listed && how.skip == "" {
			alike := strings.Join(how.args, " ")
			groups[alike] = append(groups[alike], f)
		}
	}
	decoded := map[string][]map[string]any{}
	for _, group := range groups {
		var packets [][]byte
		for _, f := range group {
			packets = append(packets, f.bytes(t))
		}
		path := writePcap(t, binary.LittleEndian, pcapNanoseconds, linkEthernet, packets...)
		for _, record := range intDecode(t, slices.Concat(intMarks, intExamples[group[0].Name].args, []string{path})...) {
			number, err := record["frame"].(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			if problems, ok := record["problems"].([]any); ok {
				record["problems"] = slices.DeleteFunc(problems, func(p any) bool { return strings.HasPrefix(p.(string), "sequence gap") })
			}
			name := group[number-1].Name
			decoded[name] = append(decoded[name], record)
		}
	}
	return decoded
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func deleteAll(m map[string]any, names []string) {
	for _, name := range names {
		delete(m, name)
	}
}

// compareProblems wants as many problems as named, each with its words.
func compareProblems(t *testing.T, record map[string]any, want []string) {
	t.Helper()
	got, _ := record["problems"].([]any)
	if len(got) != len(want) {
		t.Errorf("problems %q, want %q", got, want)
		return
	}
	for i := range want {
		if !strings.Contains(got[i].(string), want[i]) {
			t.Errorf("problem %q, want %q", got[i], want[i])
		}
	}
}

// compareSubset wants everything of want in got, lists of the same length.
func compareSubset(t *testing.T, path string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		for name, value := range want {
			compareSubset(t, path+"."+name, value, asObject(got)[name])
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			t.Errorf("%s: %d entries, want %d: %v", path, len(list), len(want), got)
			return
		}
		for i := range want {
			compareSubset(t, fmt.Sprintf("%s[%d]", path, i), want[i], list[i])
		}
	default:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestIndependentDecoderNamesProblems damages good examples: what is wrong must be said.
func TestIndependentDecoderNamesProblems(t *testing.T) {
	frames := map[string]intFrame{}
	for _, f := range readIntFrames(t) {
		frames[f.Name] = f
	}
	// Of the datagrams' bytes: the outer checksum is set to 0 (none), so that only the damage shows.
	const outerUDP, payload = 14 + 20, 14 + 20 + 8
	const quoted20 = payload + 8 + 4 + 8 + 4 // embedded-int-md: group, report word, fixed words, queue
	const stack20 = quoted20 + 20 + 8        // its shim
	const quoted10 = payload + 16
	tests := []struct {
		frame  string
		offset int
		value  byte
		want   string
	}{
		{"tr20-ex-embedded-int-md", payload + 8 + 3, 0x21, "report: reserved bits are set"},
		{"tr20-ex-embedded-int-md", payload + 8 + 1, 22, "report type 4 is reserved"},
		{"tr20-ex-embedded-int-md", payload + 8 + 1, 24, "report: length 24 words, 92 bytes are left"},
		{"tr20-ex-embedded-int-md", payload + 12, 0x90, "RepMdBits bit 0 is reserved"},
		{"tr20-ex-embedded-int-md", payload + 12, 0x50, "metadata length 1 words, RepMdBits ask for 2"},
		{"tr20-ex-embedded-int-md", payload + 16, 0x80, "domain 0 with domain-specific bits set"},
		{"tr20-ex-embedded-int-md", quoted20 + 10, 0x12, "IPv4 header checksum"},
		{"tr20-ex-embedded-int-md", quoted20 + 20 + 6, 0x12, "UDP checksum"},
		{"tr20-ex-embedded-int-md", quoted20 + 20 + 5, 59, "UDP length 59"},
		{"tr20-ex-embedded-int-md", stack20, 0x19, "INT 2.x shim: reserved bits are set"},
		{"tr20-ex-embedded-int-md", stack20 + 2, 0x01, "NPT 2: reserved bits are set"},
		{"tr20-ex-embedded-int-md", stack20 + 1, 6, "are no whole number of hops"},
		{"tr20-ex-embedded-int-md", stack20 + 4 + 1, 0x10, "INT header: reserved bits are set"},
		{"tr20-ex-embedded-int-md", stack20 + 4 + 2, 0x03, "Hop ML is 3 words, the instructions ask for 2"},
		{"tr20-ex-embedded-int-md", stack20 + 4, 0x10, "INT header: version 1 behind a shim of 2.x"},
		{"tr20-ex-embedded-int-md", stack20 + 4 + 5, 0x02, "reserved instructions are set"},
		{"tr20-ex-embedded-int-md", stack20 + 4 + 10, 0x80, "INT header: domain 0"},
		{"p4studio-switch-v2-drop", payload + 8 + 3, 0x00, "a drop reason, but D is 0"},
		{"p4studio-switch-v2-drop", payload + 8 + 4 + 8 + 4 + 3, 0x01, "padding of the drop reason"},
		{"tr10-flow-embedded-int10", payload, 0x15, "length 5 words, RepMdBits ask for 4"},
		{"tr10-flow-embedded-int10", payload + 2, 0x02, "report: reserved bits are set"},
		{"tr10-flow-embedded-int10", payload + 3, 0x05, "F is 0, the quoted packet carries INT"},
		{"tr10-flow-embedded-int10", quoted10 + 14 + 20 + 20 + 1, 0x01, "INT 1.0 shim: reserved bits are set"},
		{"tr10-flow-embedded-int10", quoted10 + 14 + 20 + 16, 0x00, "TCP checksum"},
	}
	var damaged [][]byte
	for _, test := range tests {
		frame := frames[test.frame]
		b := frame.bytes(t)
		b[outerUDP+6], b[outerUDP+7] = 0, 0
		if b[test.offset] == test.value {
			t.Fatalf("%s: byte %d is %#x before the damage", test.want, test.offset, test.value)
		}
		b[test.offset] = test.value
		damaged = append(damaged, b)
	}
	path := writePcap(t, binary.LittleEndian, pcapNanoseconds, linkEthernet, damaged...)
	problems := make([]string, len(tests))
	for _, record := range intDecode(t, slices.Concat(intMarks, []string{path})...) {
		frame, err := record["frame"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		problems[frame-1] += fmt.Sprint(record["problems"])
	}
	for i, test := range tests {
		if !strings.Contains(problems[i], test.want) {
			t.Errorf("%s, byte %d = %#x: problems %s, want %q",
				test.frame, test.offset, test.value, problems[i], test.want)
		}
	}
}

// TestIndependentDecoderReadsCaptures tries file formats, link types, sequence gaps and broken files.
func TestIndependentDecoderReadsCaptures(t *testing.T) {
	var frame []byte
	for _, f := range readIntFrames(t) {
		if f.Name == "tr20-ex-baseline-ipv4" {
			frame = f.bytes(t)
		}
	}
	ip := frame[14:]
	sll := slices.Concat(make([]byte, 14), []byte{0x08, 0x00}, ip)
	sll2 := slices.Concat([]byte{0x08, 0x00}, make([]byte, 18), ip)
	vlan := slices.Concat(frame[:12], []byte{0x81, 0x00, 0x60, 0x07}, frame[12:])
	for _, test := range []struct {
		name  string
		order binary.ByteOrder
		magic uint32
		link  uint32
		bytes []byte
		time  string
	}{
		{"microseconds", binary.LittleEndian, pcapMicroseconds, linkEthernet, frame, "7000"},
		{"big endian", binary.BigEndian, pcapNanoseconds, linkEthernet, frame, "7"},
		{"raw", binary.LittleEndian, pcapNanoseconds, linkRaw, ip, "7"},
		{"SLL", binary.LittleEndian, pcapNanoseconds, linkSLL, sll, "7"},
		{"SLL2", binary.LittleEndian, pcapNanoseconds, linkSLL2, sll2, "7"},
		{"VLAN", binary.LittleEndian, pcapNanoseconds, linkEthernet, vlan, "7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			next := slices.Clone(test.bytes)
			next[len(next)-len(ip)+20+8+3] += 2 // sequence number
			next[len(next)-len(ip)+20+6], next[len(next)-len(ip)+20+7] = 0, 0
			records := intDecode(t, writePcap(t, test.order, test.magic, test.link, test.bytes, next))
			if len(records) != 2 {
				t.Fatalf("%d records, want 2", len(records))
			}
			compareProblems(t, records[0], nil)
			compareProblems(t, records[1], []string{"sequence gap: number 7 after 5"})
			compareSubset(t, "", map[string]any{"time_ns": test.time}, records[0])
		})
	}
	whole, err := os.ReadFile(writePcap(t, binary.LittleEndian, pcapNanoseconds, linkEthernet, frame))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "no pcap": []byte(strings.Repeat("x", 64)), "cut": whole[:len(whole)-1],
		"cut record": whole[:24+8],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "broken.pcap")
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			err := exec.Command("python3", "-B", "intdecode.py", path).Run()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
				t.Errorf("%v, want exit status 1", err)
			}
		})
	}
}
