// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// Wireshark has had Lua 5.2, and since 4.4 it has 5.4, whose numbers are not the same. Whatever of the plugin knows no
// Wireshark makes the same of bytes in both.
func TestWiresharkLua(t *testing.T) {
	need.Programs(t, "lua5.2", "lua5.4")
	need.Tree(t) // they read the plugin
	// go test keeps results until a file changes that the test itself has looked at.
	parts, err := filepath.Glob("../../p4/wireshark/radar_int/*.lua")
	if err != nil || len(parts) < 10 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, name := range append(parts, "testdata/dump.lua") {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	var seeds [][]byte // with a byte in front, which mutate() leaves
	for _, p := range recorded(t) {
		if b := p.data; b[12] == 8 && b[13] == 0 && b[14] == 0x45 && b[23] == protoUDP {
			seeds = append(seeds, append([]byte{0}, b[42:]...))
		}
	}
	var lines bytes.Buffer
	r := rand.New(rand.NewPCG(1, 5))
	for i := range 3000 {
		b := bytes.Clone(seeds[i%len(seeds)])
		if i >= 4*len(seeds) {
			b = mutate(r, b, seeds)
		}
		fmt.Fprintf(&lines, "%d %d %x\n", []int{32766, 5000, portVXLANGPE, portGeneve}[i/len(seeds)%4], []int{0, 23}[r.IntN(2)], b[1:])
	}
	file := filepath.Join(t.TempDir(), "payloads")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed [2][]byte
	for i, lua := range []string{"lua5.2", "lua5.4"} {
		cmd := exec.Command(lua, "testdata/dump.lua", "../../p4/wireshark/radar_int", file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if printed[i], err = cmd.Output(); err != nil {
			t.Fatalf("%s: %v\n%s", lua, err, &stderr)
		}
	}
	a, b := bytes.Split(printed[0], []byte("\n")), bytes.Split(printed[1], []byte("\n"))
	if len(a) < 10_000 || len(a) != len(b) {
		t.Fatalf("%d lines and %d", len(a), len(b))
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("Lua 5.2: %s\nLua 5.4: %s", a[i], b[i])
		}
	}
}
