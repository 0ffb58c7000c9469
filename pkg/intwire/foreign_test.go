// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/hex"
	"strings"
	"testing"
)

type foreignCase struct {
	name      string
	at        string // ethernet, ip, udp, or report: the payload of UDP
	hex       string
	profile   string // that is recognised
	want      []string
	anomalies string // codes, in order
}

const (
	ethIP  = `020000000002 020000000001 0800 `
	tinyIP = `45000014 00000000 40010000 0a000001 0a000002 `
)

// foreign are bytes written by hand, field by field, from the layouts of the texts and of
// the reference about programs. No encoder made them.
var foreign = []foreignCase{
	{
		// The first hop's latency, queue and ingress time are not available.
		name: "INT 2.1, every instruction, domain words before the complement", at: "udp",
		hex: `1388 1388 0094 0000
			14 22 0035
			20000f05 ff81 0007 8000 0001
			0000000a 0001 0002 ffffffff ffffffff ffffffffffffffff 0000000000000007 00000003 00000004 00000032 05 000100 aabbccdd 11223344 0000fffe
			0000000b 0003 0004 00000009 06 000008 0000000000000001 0000000000000002 ffffffff 00000006 00000064 07 000200 01020304 05060708 ffffffff
			5a5a5a5a`,
		profile: "spec-2.1",
		want: []string{`"hops_top_first":[{"node_id":10,"l1_in":1,"l1_out":2,"hop_latency":"invalid","queue_id":"invalid","queue_occ":"invalid","ingress_ts":"invalid",` +
			`"egress_ts":7,"l2_in":3,"l2_out":4,"egress_tx_util":50,"buffer_id":5,"buffer_occ":256,"checksum_complement":"0x0000fffe","ds_metadata_hex":"aabbccdd11223344"},` +
			`{"node_id":11,"l1_in":3,"l1_out":4,"hop_latency":9,"queue_id":6,"queue_occ":8,"ingress_ts":1,"egress_ts":2,"l2_in":"invalid","l2_out":6,"egress_tx_util":100,` +
			`"buffer_id":7,"buffer_occ":512,"checksum_complement":"0xffffffff","ds_metadata_hex":"0102030405060708"}],"source_words_hex":"5a5a5a5a"`, `"orig_dst_port":53`},
		anomalies: "unknown_domain source_words",
	},
	{
		name: "INT 2.1, reserved instructions as a newer source sets them", at: "udp",
		hex:       `1388 1388 0024 0000  10 06 00 b8  2c000301 8042 0000 0000 0000  00000001 ffffffff ffffffff`,
		profile:   "spec-2.1",
		want:      []string{`"D":1,"E":1,"M":0,"hop_ml":3,"remaining_hop_count":1,"instruction_bitmap":"0x8042"`, `{"node_id":1,"reserved_hex":"ffffffffffffffff"}`, `"orig_dscp":46`},
		anomalies: "reserved_instruction",
	},
	{
		name: "INT 1.0 in VXLAN-GPE, whose shim counts itself", at: "udp",
		hex:     `1000 12b6 0026 0000  0c000008 00006400  01 00 05 03  12000107 8000 0000  00000001 00000002  0202`,
		profile: "spec-1.0",
		want:    []string{`"vxlan_next_protocol":"0x08","shim":{"type":1,"length_words":5,"next_protocol":3}`, `"C":1,"E":0,"M":0,"hop_ml":1,"remaining_hop_count":7`, `[{"node_id":1},{"node_id":2}]`},
	},
	{
		name: "INT 1.0, level 2 and complement, E and M", at: "ip",
		hex:     `455c0044 00000000 40110000 0a000001 0a000002  1000 1001 0030 0000  01 00 0a 28  15800607 c201 0000  00000001 0002 0003 00000004 00000005 00000006 0000007f 5a5a5a5a`,
		profile: "spec-1.0",
		want: []string{`"rep":1,"C":0,"E":1,"M":1`, `{"node_id":1,"l1_in":2,"l1_out":3,"l2_in":4,"l2_out":5,"checksum_complement":"0x0000007f"`,
			`"ds_metadata_hex":"00000006"`, `"rest_hex":"5a5a5a5a"`},
		anomalies: "other_hop_ml left_over",
	},
	{
		name: "INT 0.5 with congestion status and tail", at: "ip",
		hex:     `455c003c 00000000 40110000 0a000001 0a000002  1000 1001 0028 0000  01 00 08 00  05020402 8200 0000  00000002 03 000010 00000001 03 000020  11 1f90 0a`,
		profile: "spec-0.5",
		want: []string{`"rep":1,"C":0,"E":1,"ins_cnt":2,"max_hop":4,"total_hop":2,"instruction_bitmap":"0x8200"`, `{"node_id":2,"congestion_queue_id":3,"queue_congestion":16}`,
			`"tail":{"ip_proto":17,"orig_dst_port":8080,"orig_dscp":10}`},
	},
	{
		name: "a report 0.5, cut in the second hop of INT 0.5", at: "report",
		hex: `00200001 00000001 00000002  ` + ethIP + `455c003c 00000000 40110000 0a000001 0a000002  1000 1001 0028 0000
			01 00 08 00  01020402 8200 0000  00000002 03 000010 0000`,
		profile:   "spec-0.5",
		want:      []string{`"incomplete":1`, `"hops_top_first":[{"node_id":2,"congestion_queue_id":3,"queue_congestion":16}],"rest_hex":"0000"`},
		anomalies: "cut_int",
	},
	{
		name: "Report 1.0, all metadata, IPv4", at: "report",
		hex:     `1a3f8105 00000009 00000064 000003e8  0001 0002 00000064 03 000010 000007d0 04 47 0000 00000032  ` + tinyIP,
		profile: "spec-1.0",
		want: []string{`"length_words":10,"nproto":1,"rep_md_bits":63,"D":1,"Q":0,"F":0,"hw_id":5,"sequence":100,"switch_id":9,"ingress_ts":1000,"l1_in":1,"l1_out":2,"hop_latency":100,` +
			`"queue_id":3,"queue_occ":16,"egress_ts":2000,"egress_tx_util":50,"drop_queue_id":4,"drop_reason":71`},
	},
	{
		name: "Report 0.5 of a drop", at: "report",
		hex:     `01800003 00000001 00000002  000000ab 0003 01ff 04 50 0000  ` + ethIP + tinyIP,
		profile: "spec-0.5",
		want:    []string{`"nproto":1,"D":1,"Q":0,"F":0,"hw_id":3,"sequence":1,"switch_id":171,"ingress_ts":2,"l1_in":3,"l1_out":511,"drop_queue_id":4,"drop_reason":80`},
	},
	{
		name: "Reports 2.0: a queue, TLVs, a drop to the end", at: "report",
		hex: `20ffffff 00000007
			10 04 02 40  1080 0000 0000 0000  02 000100 05 000200
			01 05 00 20  00 02 0001 aabbccdd 11223344  20 01 0000 45000014
			13 ff 02 90  0001 1234 8000 4321  04 50 0000 cafebabe  ` + ethIP + tinyIP,
		profile: "spec-2.1",
		want: []string{`"group":{"version":2,"hw_id":3,"sequence":4194303,"node_id":7}`,
			`{"rep_type":1,"in_type":0,"report_length":4,"md_length":2,"D":0,"Q":1,"F":0,"I":0,"rep_md_bits":"0x1080","domain":"0x0000","ds_md_bits":"0x0000","ds_md_status":"0x0000",` +
				`"queue_id":2,"queue_occ":256,"buffer_id":5,"buffer_occ":512}`,
			`"tlvs":[{"type":0,"length":2,"template":1,"data":"aabbccdd11223344"},{"type":2,"length":1,"template":0,"data":"45000014"}]`,
			`"D":1,"Q":0,"F":0,"I":1,"rep_md_bits":"0x0001","domain":"0x1234","ds_md_bits":"0x8000","ds_md_status":"0x4321","drop_queue_id":4,"drop_reason":80,"ds_metadata_hex":"cafebabe"`},
		anomalies: "unknown_domain",
	},
	{
		name: "Report 2.0 with metadata bit 9 and times", at: "report",
		hex:       `20000001 00000007  14 0c 05 00  0c40 0000 0000 0000  0000000000000001 ffffffffffffffff 12345678  ` + tinyIP,
		profile:   "spec-2.1",
		want:      []string{`"ingress_ts":1,"egress_ts":"invalid","reserved_hex":"12345678"`},
		anomalies: "reserved_md",
	},
	{
		name: "Host-INT's summary of drops", at: "report",
		hex:     `03800001 00000005 00000063  00000002 00000009 0001 0002 00000457 0000004d 00000003`,
		profile: "host-int",
		want: []string{`"nproto":3,"D":1,"Q":0,"F":0,"hw_id":1,"sequence":5,"switch_id":9,"ingress_ts":99,"l1_in":1,"l1_out":2,` +
			`"gap_source_id":2,"gap_ts":1111,"gap_sequence":77,"gap_count":3`},
	},
	{
		name: "transparent-security: the length counts the shim, late flags, source words", at: "udp",
		hex:     `1000 022b 0024 0000  14 07 1f90  20800105 8000 5453 8000 8000  00000001 001122334455 0000`,
		profile: "tps",
		want: []string{`"D":0,"E":0,"M":1,"hop_ml":1,"remaining_hop_count":5`, `"hops_top_first":[{"node_id":1}],"source_words_hex":"0011223344550000"`,
			`"domain_specific_id":"0x5453"`},
		anomalies: "shim_in_length",
	},
	{
		name: "transparent-security: words before those of the source that are no whole hop", at: "udp",
		hex:       `1000 022b 0024 0000  14 07 1f90  20800205 8000 5453 8000 8000  cafebabe 001122334455 0000`,
		profile:   "tps",
		want:      []string{`"hops_top_first":[],"source_words_hex":"cafebabe0011223344550000"`},
		anomalies: "shim_in_length source_words",
	},
	{
		name: "transparent-security: a report of type 0 with main contents", at: "report",
		hex: `20000140 00000001  02 14 00 20  0000 5453 0000 0000  ` + ethIP + `45000038 00000000 40110000 0a000001 0a000002  1000 022b 0024 0000
			14 07 1f90  20000105 8000 5453 8000 8000  00000001 001122334455 0000  0000`,
		profile: "tps",
		want: []string{`"group":{"version":2,"hw_id":0,"sequence":5,"node_id":1}`, `"rep_type":0,"in_type":2`, `"domain":"0x5453"`,
			`"hops_top_first":[{"node_id":1}],"source_words_hex":"0011223344550000"`},
		anomalies: "main_in_type_0 shim_in_length",
	},
	{
		name: "domain 0x5453 as the text has it, before TCP", at: "report",
		hex: `20400008 00000003  14 18 00 20  0000 0000 0000 0000
			45000058 00010000 4011 6692 0a000001 0a000002  9c40 1388 0044 0000
			18 09 0006  20000104 8000 5453 8000 0000  0000000e 0000000d 0000000c 0000000b 02aabbccddee 0000
			80e8 01bb 00000001 00000000 5018 2000 0000 0000`,
		profile: "spec-2.1",
		want:    []string{`"length_words":9`, `"hops_top_first":[{"node_id":14},{"node_id":13},{"node_id":12},{"node_id":11}],"source_words_hex":"02aabbccddee0000"`},
	},
	{
		name: "domain 0x5453 as the text has it, before UDP and a payload", at: "udp",
		hex: `9c40 1388 0034 0000
			18 06 0011  20000104 8000 5453 8000 0000  0000000b 02aabbccddee 0000
			0035 0036 0010 0000 6162636465666768`,
		profile: "spec-2.1",
		want:    []string{`"hops_top_first":[{"node_id":11}],"source_words_hex":"02aabbccddee0000"`},
	},
	{
		name: "transparent-security, before TCP: what follows the stack decides", at: "udp",
		hex: `9c40 1388 0040 0000
			18 08 0006  20000104 8000 5453 8000 0000  0000000c 0000000b 02aabbccddee 0000
			80e8 01bb 00000001 00000000 5018 2000 0000 0000 61626364`,
		profile:   "tps",
		want:      []string{`"hops_top_first":[{"node_id":12},{"node_id":11}],"source_words_hex":"02aabbccddee0000"`},
		anomalies: "shim_in_length",
	},
	{
		name: "transparent-security at its port, before a payload", at: "udp",
		hex: `9c40 022b 0030 0000
			14 08 1f90  20000104 8000 5453 8000 8000  0000000c 0000000b 02aabbccddee 0000
			6162636465666768`,
		profile:   "tps",
		want:      []string{`"hops_top_first":[{"node_id":12},{"node_id":11}],"source_words_hex":"02aabbccddee0000"`},
		anomalies: "shim_in_length",
	},
	{
		name: "P4-INT: version 1, length 0, a hop behind the MX header", at: "report",
		hex: `10000000 00000003  14 00 00 10  0000 0000 0000 0000  ` + ethIP + `455c0058 00000000 40110000 0a000001 0a000002  1000 1001 0044 0000
			30 0e 0000  20000000 ff00 0000 0000 0000
			00000003 0001 0002 00000004 05 000006 0000000000000007 0000000000000008 00000009 0000000a 0000000b`,
		profile: "p4int-laofan",
		want: []string{`"type":3,"length_words":14`, `"hops_top_first":[{"node_id":3,"l1_in":1,"l1_out":2,"hop_latency":4,"queue_id":5,"queue_occ":6,"ingress_ts":7,"egress_ts":8,` +
			`"l2_in":9,"l2_out":10,"egress_tx_util":11}]`, `"I":1`},
		anomalies: "bad_report_ver no_report_length other_contents stack_behind_mx",
	},
	{
		name: "P4-INT as it is today: version 2, length 0", at: "report",
		hex: `20400204 00000003  13 00 00 20  0000 0000 0000 0000  00000a000302 00000a000302 0800
			455c00b5 00010000 3e1163d9 0a000101 0a000302  f440 01bb 00a1 233f  10 24 0000  20000b07 ff00 0000 0000 0000
			00000003 0004 0001 00000502 00 000000 00000000fb1749b5 00000000fb174eb7 00000004 00000001 00000000
			00000002 0001 0002 00000445 00 000000 00000000fb2b7921 00000000fb2b7d66 00000001 00000002 00000000
			00000001 0001 0002 0000049a 00 000000 00000000fb37421c 00000000fb3746b6 00000001 00000002 00000000`,
		profile: "p4int",
		want: []string{`"group":{"version":2,"hw_id":1,"sequence":516,"node_id":3},"reports":[{"rep_type":1,"in_type":3,"report_length":0,`,
			`"hops_top_first":[{"node_id":3,"l1_in":4,"l1_out":1,"hop_latency":1282,`, `{"node_id":2,"l1_in":1,"l1_out":2,"hop_latency":1093,`,
			`{"node_id":1,"l1_in":1,"l1_out":2,"hop_latency":1178,`},
		anomalies: "no_report_length",
	},
	{
		name: "a stack to which a node could not add (E)", at: "report",
		hex: `20400002 00000003  14 11 00 20  0000 0000 0000 0000
			455c003c 00010000 40116652 0a000001 0a000002  9c40 1f90 0028 0000
			10 07 0000  24000200 a000 0000 0000 0000  00000002 000000c8 00000001 00000064`,
		profile: "spec-2.1",
		want:    []string{`"incomplete":1`, `"E":1,"M":0`, `"hops_top_first":[{"node_id":2,"hop_latency":200},{"node_id":1,"hop_latency":100}]`},
	},
	{
		name: "a quote that ends in the stack", at: "report",
		hex: `20400003 00000003  14 0f 00 20  0000 0000 0000 0000
			455c0044 00010000 4011664a 0a000001 0a000002  9c40 1f90 0030 0000
			10 09 0000  20000206 a000 0000 0000 0000  00000003 0000012c`,
		profile:   "spec-2.1",
		want:      []string{`"incomplete":1`, `"hops_top_first":[{"node_id":3,"hop_latency":300}]`},
		anomalies: "cut_int",
	},
	{
		name: "zero words behind a report", at: "report",
		hex:       `20000001 00000007  10 04 02 40  1080 0000 0000 0000  02 000100 05 000200  00000000 00000000 00`,
		profile:   "spec-2.1",
		want:      []string{`"reports":[{"rep_type":1,"in_type":0,"report_length":4,"md_length":2,"D":0,"Q":1,"F":0,"I":0,"rep_md_bits":"0x1080","domain":"0x0000","ds_md_bits":"0x0000","ds_md_status":"0x0000","queue_id":2,"queue_occ":256,"buffer_id":5,"buffer_occ":512}]`},
		anomalies: "zero_words",
	},
	{
		name: "a probe marker", at: "udp",
		hex:     `1000 1001 0024 0000  1122334455667788  10 04 0000  20000107 8000 0000 0000 0000  00000001`,
		profile: "spec-2.1",
		want:    []string{`"found_by":"marker"`, `"probe_marker":"0x1122334455667788"`, `[{"node_id":1}]`},
	},
	{
		name: "INT before the TCP options", at: "ip",
		hex: `455c003c 00000000 40060000 0a000001 0a000002  3039 0050 00000000 00000000 6010 2000 0000 0000
			01 00 04 00  10000107 8000 0000  00000001  020405b4`,
		profile:   "spec-1.0",
		want:      []string{`"found_by":"dscp","carrier":"tcp"`, `[{"node_id":1}]`},
		anomalies: "past_options",
	},
	{
		name: "NPT 2 with the protocol in the third byte", at: "udp",
		hex:       `1000 1388 0018 0000  18 03 06 00  20000107 8000 0000 0000 0000`,
		profile:   "scapy-4230",
		want:      []string{`"npt":2,"ip_proto":6`},
		anomalies: "high_proto",
	},
	{
		name: "INT-MX in GRE of an unknown type, words of the source", at: "ip",
		hex:     `45000030 00000000 402f0000 0a000001 0a000002  2000 9999 00000001  38 04 0800  28000000 8000 0007 8000 0001  cafebabe`,
		profile: "spec-2.1",
		want: []string{`"gre_protocol":"0x9999","shim":{"type":3,"length_words":4,"G":1,"next_protocol":"0x0800"},"header":{"version":2,"D":1,"instruction_bitmap":"0x8000"`,
			`"source_words_hex":"cafebabe"`},
		anomalies: "unknown_mark unknown_domain source_words",
	},
	{
		name: "Geneve with another option before, of an unknown class", at: "udp",
		hex:       `1000 17c1 002e 0000  07 00 6558 00000100  0102 80 01 11111111  9999 01 04 20000107 8000 0000 0000 0000 00000001  0202`,
		profile:   "spec-2.1",
		want:      []string{`"option_class":"0x9999","option_type":1,"header":{"version":2`, `[{"node_id":1}]`},
		anomalies: "unknown_mark",
	},
	{
		// Two tags, hop latency all ones, F = 0, as reported by NoviFlow switches.
		name: "Report 1.0, tags, F not set", at: "report",
		hex: `14000001 00000001 00000002 00000003  020000000002 020000000001 88a8 0064 8100 0065 0800
			455c0030 00000000 40110000 0a000001 0a000002  1000 1001 001c 0000  01 00 05 00  10000207 a000 0000  00000001 ffffffff`,
		profile:   "spec-1.0",
		want:      []string{`{"node_id":1,"hop_latency":"invalid"}`},
		anomalies: "int_without_f",
	},
	{
		name: "IPv6 with options before UDP, Linux cooked", at: "cooked",
		hex: `0000 0001 0006 020000000001 0000 86dd
			65c00000 0030 00 40 20010db8000000000000000000000001 20010db8000000000000000000000002  11 01 010c 00000000 00000000 00000000
			1000 1001 0020 0000  30 03 0000  20000000 8000 0000 0000 0000  5a5a5a5a 5a5a5a5a`,
		profile: "spec-2.1",
		want:    []string{`"ip_version":6,"src":"2001:db8::1","dst":"2001:db8::2","proto":17`, `"dscp":23`, `"header":{"version":2,"D":0,"instruction_bitmap":"0x8000"`},
	},
}

func (c *foreignCase) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(c.hex), ""))
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return b
}

func (c *foreignCase) start() byte {
	return map[string]byte{"ethernet": 0, "ip": 1, "udp": 2, "cooked": 3, "report": 5}[c.at]
}

func (c *foreignCase) decode(t testing.TB, d *Decoder, m *Message) {
	t.Helper()
	if c.at == "report" {
		d.DecodeReport(m, c.bytes(t))
	} else {
		d.Decode(m, Start(c.start()), c.bytes(t))
	}
}

func codesOf(m *Message) string {
	var all []string
	for _, a := range m.Anomalies {
		all = append(all, a.Code.String())
	}
	return strings.Join(all, " ")
}

// Bytes made by hand decode to what they were made from.
func TestForeign(t *testing.T) {
	var d Decoder
	var m Message
	for _, c := range foreign {
		t.Run(c.name, func(t *testing.T) {
			c.decode(t, &d, &m)
			got := string(m.AppendJSON(nil))
			if m.Profile == nil || m.Profile.Name != c.profile {
				t.Errorf("profile %v, want %s", m.Profile, c.profile)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %s", want)
				}
			}
			if anomalies := codesOf(&m); anomalies != c.anomalies {
				t.Errorf("anomalies %q, want %q", anomalies, c.anomalies)
			}
			if t.Failed() {
				t.Log(got)
			}
			// Reports are found as UDP's payload at any port, too.
			if c.at == "report" {
				d.Decode(&m, StartEthernet, wrap(c.bytes(t), 9))
				if m.Profile == nil || m.Profile.Name != c.profile {
					t.Errorf("at port 9: %s", m.AppendJSON(nil))
				}
			}
		})
	}
}
