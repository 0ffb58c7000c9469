// SPDX-License-Identifier: Apache-2.0

package wireshark

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// reader prints the fields of comments that are given as hex digits, one a line.
const reader = `local comment = dofile("radar_packets/comment.lua")(dofile("radar_packets/json.lua"), dofile("radar_packets/fields.lua"))
for line in io.lines(arg[1]) do
	local text = line:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)
	local parts = {}
	for _, f in ipairs(comment.read(text) or {}) do
		parts[#parts + 1] = f[1] .. "=" .. (type(f[2]) == "number" and string.format("%.0f", f[2]) or tostring(f[2])):gsub("[^ -~]", "?")
	end
	print(table.concat(parts, " "))
end`

const lostComment = `{"radar":1,"id":"5f-1","guid":"0x1","hop":2,"node":"r1","port":"eth1","direction":"lost","state":"lost","segs":10,"latency_ns":9000,` +
	`"loss":{"node":"r1","port":"eth1","at":"queue","reason":"QDISC_DROP","qdisc":"tbf","at_ns":9007199254740992,"after_delivery":true},"assumed":["ttl","dscp"]}`

// read runs the reader in each Lua that Wireshark has or had, which must print the same.
func read(t *testing.T, comments [][]byte) []string {
	t.Helper()
	need.Programs(t, "lua5.2", "lua5.4")
	need.Tree(t) // they read the plugin
	var lines bytes.Buffer
	for _, c := range comments {
		fmt.Fprintf(&lines, "%x\n", c)
	}
	dir := t.TempDir()
	script, file := filepath.Join(dir, "read.lua"), filepath.Join(dir, "comments")
	for name, content := range map[string][]byte{script: []byte(reader), file: lines.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var printed [2]string
	for i, lua := range []string{"lua5.2", "lua5.4"} {
		out, err := exec.Command(lua, script, file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", lua, err, out)
		}
		printed[i] = string(out)
	}
	if printed[0] != printed[1] {
		t.Error("Lua 5.2 and 5.4 do not read the same")
	}
	return strings.Split(strings.TrimSuffix(printed[0], "\n"), "\n")
}

// TestComments: what becomes of a comment, and of comments that are not radar's, or not whole, or too much.
func TestComments(t *testing.T) {
	deep := `{"radar":1,"id":"x","loss":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"
	for text, want := range map[string]string{
		lostComment: "radar.id=5f-1 radar.guid=0x1 radar.hop=2 radar.node=r1 radar.port=eth1 radar.direction=lost radar.state=lost radar.segs=10 " +
			"radar.latency=9000 radar.loss.node=r1 radar.loss.port=eth1 radar.loss.at=queue radar.loss.reason=QDISC_DROP radar.loss.qdisc=tbf " +
			"radar.loss.time=9007199254740992 radar.loss.after_delivery=true radar.assumed=ttl radar.assumed=dscp",
		`{"radar":1,"id":"a\u0041\"\\\n"}`: `radar.id=aA"\?`,
		"a comment of somebody":            "",
		`{"radar":1}`:                      "",
		`{"radar":1,"id":7}`:               "",
		`{"radar":1,"id":"x"`:              "",
		`{"radar":1,"id":"x"}}`:            "",
		`{"radar":1,"id":"x","hop":-1,"segs":1.5,"latency_ns":1e99,"loss":7}`:    "radar.id=x",
		`{"radar":1,"id":"x","truncated":"yes","node":{"id":1},"port":null}`:     "radar.id=x",
		`{"radar":1,"id":"x","node":"` + strings.Repeat("n", 2000) + `"}`:        "radar.id=x",
		`{"radar":1,"id":"` + strings.Repeat("n", 20000) + `"}`:                  "",
		`{"radar":1,"id":"x","assumed":["` + strings.Repeat(`a","`, 40) + `a"]}`: "radar.id=x" + strings.Repeat(" radar.assumed=a", 16),
		deep: "",
	} {
		if got := read(t, [][]byte{[]byte(text)}); len(got) != 1 || got[0] != want {
			t.Errorf("%.80s:\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestAnyComment: no bytes make it fail, and both versions of Lua read them alike.
func TestAnyComment(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	var comments [][]byte
	for range 5000 {
		c := []byte(lostComment)
		for range 1 + rng.IntN(4) {
			at := 9 + rng.IntN(len(c)-9)
			switch rng.IntN(3) {
			case 0:
				c[at] = byte(rng.IntN(256))
			case 1:
				c = c[:max(at, 20)]
			default:
				c = bytes.Replace(c, c[at:at+1], []byte(`{"[\u`)[:1+rng.IntN(5)], 1+rng.IntN(3))
			}
		}
		comments = append(comments, c)
	}
	whole := 0
	for _, line := range read(t, comments) {
		if strings.HasPrefix(line, "radar.id=") {
			whole++
		}
	}
	if whole < 100 || whole > 4900 {
		t.Errorf("%d of %d are still comments", whole, len(comments))
	}
}

// TestFields: tshark has the fields, of their types, in whole numbers of 64 bits.
func TestFields(t *testing.T) {
	need.Programs(t, "tshark")
	need.Tree(t) // it reads the plugin
	out, err := exec.Command("tshark", "-G", "fields", "-X", "lua_script:radar_packets/radar_packets.lua").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(line, "\t"); len(f) > 3 && f[0] == "F" && strings.HasPrefix(f[2], "radar.") {
			got[f[2]] = f[3]
		}
	}
	for name, want := range map[string]string{
		"radar.id": "FT_STRING", "radar.hop": "FT_UINT32", "radar.latency": "FT_UINT64", "radar.loss.reason": "FT_STRING", "radar.truncated": "FT_BOOLEAN",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if len(got) != 24 {
		t.Errorf("%d fields", len(got))
	}
}
