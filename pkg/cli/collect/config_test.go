// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
)

func TestConfig(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	path := filepath.Join(t.TempDir(), "collector.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`# a collector
port: [32766, 6000]
source:
  - 10.9.0.3=switch-p4-16
node: 1=leaf1,2=spine2
all: true
threshold: {hop_latency: 5us}
`)
	if _, stderr, code := clitest.Radar(t, "collect", "--config", path, "-r", clitest.ReportsFile(t)); code != kit.ExitUsage || !strings.Contains(stderr, "line 7: threshold: use a value or a list") {
		t.Errorf("code %d, %s", code, stderr)
	}
	write(`# a collector
port: [32766, 6000]
source:
  - 10.9.0.3=switch-p4-16
node: 1=leaf1,2=spine2
all: true
threshold: [hop_latency=5us, queue_occupancy=50%]
keep: 1M
`)
	if _, stderr, code := clitest.Radar(t, "collect", "--config", path, "--node", "1=tor1", "-r", clitest.ReportsFile(t)); code != kit.ExitOK {
		t.Fatalf("code %d, %s", code, stderr)
	}
	info, err := store.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	if !info.All || len(info.Ports) != 2 || info.Profiles["10.9.0.3"] != "switch-p4-16" || info.Names[1] != "tor1" || info.Names[2] != "" {
		t.Errorf("%+v", info)
	}
	for text, want := range map[string]string{
		"":                       "",
		"# nothing\n":            "",
		"ports: 1":               `line 1: no setting "ports": settings are named as the flags`,
		"all: true\nforget: yes": `line 2: no setting "forget"`,
		"all: true\nkeep: 10":    "use at least 64k",
		"\n\nkeep: much":         "line 3: keep: ",
		"- a\n- b":               "use lines such as",
		"a: [":                   "--config " + path,
		"node: 1=a\nnode: 2=b":   "--config " + path,
	} {
		write(text)
		_, stderr, code := clitest.Radar(t, "collect", "--config", path, "-r", clitest.ReportsFile(t))
		if (code == kit.ExitOK) != (want == "") || !strings.Contains(stderr, want) {
			t.Errorf("%q: code %d, %s", text, code, stderr)
		}
	}
	if _, stderr, code := clitest.Radar(t, "collect", "--config", path+".none"); code != kit.ExitFailure || !strings.Contains(stderr, "no such file") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
