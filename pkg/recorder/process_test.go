// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Who has found a recorder can read its last status when the domain is gone.
func TestStatus(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if err := statedir.Make(domain.Dir("lab")); err != nil {
		t.Fatal(err)
	}
	c, err := NewClaim("lab", "/run1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	r, err := Find("lab")
	if err != nil || r == nil || r.PID != os.Getpid() || r.Dir != "/run1" {
		t.Fatalf("%+v, %v", r, err)
	}
	defer r.Close()
	if err := os.RemoveAll(domain.Dir("lab")); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Status{{"/run1", map[string]uint64{"full": 123}, "a long text", nil}, {"/run1", map[string]uint64{"full": 5}, "", new(uint64)}} {
		if err := c.SetStatus(s); err != nil {
			t.Fatal(err)
		}
		if err := r.read(); err != nil || !reflect.DeepEqual(r.Status, s) {
			t.Errorf("%+v, %v, want %+v", r.Status, err, s)
		}
	}
}

// A recorder that finishes once it is asked to end has said what it kept. One that ended by itself was not ended.
func TestAwait(t *testing.T) {
	need.Programs(t, "sh:dash")
	status := filepath.Join(t.TempDir(), "status")
	for script, ended := range map[string]bool{
		`trap 'echo "{\"kept\": 7}" > "$0"; exit' TERM; echo ready; while :; do sleep 0.01; done`: true,
		`echo ready; read line; echo '{"kept": 7}' > "$0"`:                                        false,
	} {
		if err := os.WriteFile(status, []byte(`{"dir": "/run1"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(status)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", script, status)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		p, err := host.Running(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		if ended {
			cancel() // nobody waits for it to end by itself
			go func() { over <- cmd.Wait() }()
		} else {
			in.Close()
			over <- cmd.Wait()
		}
		r := &Running{Process: p, file: file}
		if err := r.Await(ctx); err != nil || r.Kept == nil || *r.Kept != 7 || r.Ended != ended {
			t.Errorf("%s: %+v, %v", script, r, err)
		}
		cancel()
		r.Close()
		<-over
	}
}
