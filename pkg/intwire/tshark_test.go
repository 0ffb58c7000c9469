// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/p4/wireshark"
)

// item is an item of tshark's tree: a protocol or a field.
type item struct {
	Name  string `xml:"name,attr"`
	Show  string `xml:"show,attr"`
	Value string `xml:"value,attr"` // its bytes
	Label string `xml:"showname,attr"`
	Hide  string `xml:"hide,attr"`
	Text  string `xml:",chardata"` // of a column
	Sub   []item `xml:",any"`
}

// tshark dissects a capture file with the plugin, and no other one. It returns a tree for each packet.
func tshark(t *testing.T, capture string, args ...string) []item {
	t.Helper()
	return trees(t, "pdml", capture, args...)
}

// trees is tshark, of a form of XML that it knows.
func trees(t *testing.T, form, capture string, args ...string) []item {
	t.Helper()
	need.Programs(t, "tshark")
	plugin, err := wireshark.INT.File()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir() // with no settings and plugins of a user
	path := filepath.Join(home, wireshark.INT.Name())
	if err := os.WriteFile(path, plugin, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tshark", append([]string{"-n", "-X", "lua_script:" + path, "-r", capture, "-T", form}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "RADAR_INT_PLUGIN="+path) // no other one that is installed
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	if i := bytes.Index(out, []byte("Lua Error")); i >= 0 || strings.Contains(stderr.String(), "Lua") {
		t.Fatalf("%s\n%s", out[max(i, 0):min(max(i, 0)+500, len(out))], &stderr)
	}
	var packets []item
	for d := xml.NewDecoder(bytes.NewReader(out)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return packets
		} else if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "packet" {
			var p item
			if err := d.DecodeElement(&p, &start); err != nil {
				t.Fatal(err)
			}
			packets = append(packets, p)
		}
	}
}

// facts are what is known of a packet, by a path such as reports[0].embedded.shim.type.
type facts map[string]string

// plain writes a number without its base: JSON has bitmaps as "0x9000".
func plain(v string) string {
	if n, ok := new(big.Int).SetString(v, 0); ok && v != "" {
		return n.String()
	}
	return v
}

// flatten turns JSON into facts.
func (f facts) flatten(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			f.flatten(strings.TrimPrefix(path+"."+name, "."), sub)
		}
	case []any:
		for i, sub := range v {
			f.flatten(fmt.Sprintf("%s[%d]", path, i), sub)
		}
	case string:
		if f[path] = v; !strings.HasSuffix(path, "_hex") && !strings.HasSuffix(path, "data") {
			f[path] = plain(v)
		}
	default:
		f[path] = fmt.Sprint(v)
	}
}

// decoded are the facts and anomalies that radar int decode prints of a message. Those of the layers below are tshark's own.
func decoded(t *testing.T, m *Message) (facts, []string) {
	t.Helper()
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(m.AppendJSON(nil)))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "packet")
	delete(tree, "anomalies")
	if report, ok := tree["report"].(map[string]any); ok {
		delete(report, "length_words_field") // said twice
	}
	f := make(facts)
	f.flatten("", tree)
	codes := make(map[string]bool)
	for _, a := range m.Anomalies {
		if !notOfPlugin[a.Code] {
			codes[a.Code.String()] = true
		}
	}
	return f, slices.Sorted(maps.Keys(codes))
}

// notOfPlugin are anomalies of the layers below, which Wireshark has notes of its own about, and those that say that there
// is no INT.
var notOfPlugin = map[Code]bool{
	CutLink: true, NotIP: true, CutIP: true, BadIP: true, Fragment: true, CutL4: true, BadL4Length: true, CutTunnel: true, TooDeep: true,
	NothingFound: true, LooksLikeINT: true, PortWithoutINT: true,
}

// shown are the facts and anomalies in a packet's tree.
type shown struct {
	facts
	codes    map[string]bool
	profile  string
	topLevel int // INT outside of reports
}

func (s *shown) expert(it *item) {
	for i := range it.Sub {
		for _, prefix := range []string{"int.expert.", "int_report.expert."} {
			if code, ok := strings.CutPrefix(it.Sub[i].Name, prefix); ok {
				s.codes[code] = true
			}
		}
		s.expert(&it.Sub[i])
	}
}

// each calls visit with the outermost items of these names below an item.
func (it *item) each(visit func(*item), names ...string) {
	for i := range it.Sub {
		if sub := &it.Sub[i]; slices.Contains(names, sub.Name) {
			visit(sub)
		} else {
			sub.each(visit, names...)
		}
	}
}

// renamed are fields whose name in JSON is not that of the filter.
var renamed = map[string]string{
	"d": "D", "e": "E", "m": "M", "c": "C", "q": "Q", "f": "F", "i": "I", "g": "G", "seq": "sequence", "gap_seq": "gap_sequence",
	"reserved_words": "reserved_hex", "ds_metadata": "ds_metadata_hex", "source_words": "source_words_hex", "rest": "rest_hex",
}

// put adds a field. Reserved bits are in JSON only if they are set.
func (s *shown) put(path, prefix string, it *item) {
	name, ok := strings.CutPrefix(it.Name, prefix)
	if !ok || it.Hide == "yes" {
		return
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	if to, ok := renamed[name]; ok {
		name = to
	}
	v := plain(it.Show)
	switch {
	case v == "True":
		v = "1"
	case v == "False":
		v = "0"
	case strings.HasSuffix(name, "_hex"), name == "data":
		v = it.Value
	case strings.HasPrefix(name, "reserved") && v == "0":
		return
	case it.Name == "int.unavailable":
		name, v = it.Show, "invalid"
	}
	s.facts[strings.TrimPrefix(path+"."+name, ".")] = v
}

// putInt adds an INT header and what belongs to it.
func (s *shown) putInt(path string, it *item) {
	hops := 0
	for i := range it.Sub {
		sub := &it.Sub[i]
		switch sub.Name {
		case "int.profile":
			s.profile = sub.Show
		case "int.found_by":
			if !strings.Contains(path, "]") && s.facts["found_by"] == "" {
				s.facts["found_by"] = sub.Show
			}
		case "int.shim", "int.header", "int.tail":
			for j := range sub.Sub {
				s.put(path+sub.Name[len("int"):], "int.", &sub.Sub[j])
			}
		case "int.option":
			for j := range sub.Sub {
				if name := sub.Sub[j].Name; name == "int.option_class" || name == "int.option_type" {
					s.put(path, "int.", &sub.Sub[j])
				}
			}
		case "int.hops":
			for j := range sub.Sub {
				if hop := &sub.Sub[j]; hop.Name == "int.hop" {
					for k := range hop.Sub {
						s.put(fmt.Sprintf("%s.hops_top_first[%d]", path, hops), "int.", &hop.Sub[k])
					}
					hops++
				}
			}
		default:
			s.put(path, "int.", sub)
		}
	}
}

// putReport adds a report, or a group of them.
func (s *shown) putReport(it *item) {
	head, singles := "report", 0
	it.each(func(*item) { head = "group" }, "int_report.report")
	if of(it, "int_report.seq") != "" && of(it, "int_report.nproto") == "" {
		head = "group"
	}
	for i := range it.Sub {
		sub := &it.Sub[i]
		switch sub.Name {
		case "int_report.profile":
			s.profile = sub.Show
		case "int_report.found_by":
			s.facts["found_by"] = sub.Show
		case "int_report.node_id":
			s.facts[head+"."+map[string]string{"report": "switch_id", "group": "node_id"}[head]] = sub.Show
		case "int_report.metadata":
			for j := range sub.Sub {
				if v := &sub.Sub[j]; v.Name == "int_report.node_id" {
					s.facts[head+".switch_id"] = v.Show
				} else {
					s.put(head, v.Name[:strings.IndexByte(v.Name, '.')+1], v)
				}
			}
		case "int_report.inner", "int_report.padding", "int_report.padding_bits": // not in JSON
		case "int_report.report":
			s.putSingle(fmt.Sprintf("reports[%d]", singles), sub)
			singles++
		default:
			s.put(head, "int_report.", sub)
		}
	}
	if head == "report" {
		n := 0
		it.each(func(in *item) { s.putInt(more(n), in); n++ }, "int")
	}
}

// of is the value of a field below an item.
func of(it *item, name string) (v string) {
	it.each(func(found *item) { v = found.Show }, name)
	return v
}

// more is the path of the nth INT of a packet.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("more[%d]", n-1)
}

func (s *shown) putSingle(path string, it *item) {
	tlvs, inType := 0, of(it, "int_report.in_type")
	for i := range it.Sub {
		sub := &it.Sub[i]
		switch sub.Name {
		case "int_report.metadata":
			for j := range sub.Sub {
				s.put(path, sub.Sub[j].Name[:strings.IndexByte(sub.Sub[j].Name, '.')+1], &sub.Sub[j])
			}
		case "int_report.tlv":
			for j := range sub.Sub {
				if sub.Sub[j].Name != "int_report.tlv.reserved" && sub.Sub[j].Name != "int_report.inner" {
					s.put(fmt.Sprintf("%s.tlvs[%d]", path, tlvs), "int_report.", &sub.Sub[j])
				}
			}
			tlvs++
		case "int_report.inner":
			if inType != "3" && inType != "4" && inType != "5" {
				s.facts[path+".inner_hex"] = sub.Value
			}
		default:
			s.put(path, "int_report.", sub)
		}
	}
	n := 0
	it.each(func(in *item) {
		if n++; n == 1 {
			s.putInt(path+".embedded", in)
		}
	}, "int")
}

// read returns what is shown of a packet.
func read(packet *item) *shown {
	s := &shown{facts: make(facts), codes: make(map[string]bool)}
	packet.each(func(it *item) {
		s.expert(it)
		if it.Name == "int_report" {
			s.putReport(it)
		} else if of(it, "int.profile") != "" {
			s.putInt(more(s.topLevel), it)
			s.topLevel++
		}
	}, "int", "int_report")
	if s.profile != "" {
		s.facts["profile"] = s.profile
	}
	return s
}

// differ lists where what tshark shows differs from what is decoded.
func differ(want, got facts) (list []string) {
	for path, v := range want {
		if got[path] != v {
			list = append(list, fmt.Sprintf("%s: tshark shows %q, decoded is %q", path, got[path], v))
		}
	}
	for path, v := range got {
		if _, ok := want[path]; !ok {
			list = append(list, fmt.Sprintf("%s: tshark shows %q, decoded is nothing", path, v))
		}
	}
	slices.Sort(list)
	return list
}
