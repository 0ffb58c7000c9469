// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/p4rt"
	"github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/host"
)

const answersFile = "../../lab/test/p4rt/testdata/answers.json"

// TestAnswers: a real switch answers as was recorded. The P4Runtime server of other tests is held against that.
func TestAnswers(t *testing.T) {
	live(t)
	need.Programs(t, "nsenter:util-linux")
	n := nstest.New(t, "sw") // its servers listen at all addresses
	const address = "127.0.0.1:9559"
	cmd := exec.Command("nsenter", "--net="+n.Path("sw"), "simple_switch_grpc", "--device-id", "77", "--no-p4", "-L", "off", "--", "--grpc-server-addr", address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (conn net.Conn, err error) {
			ns, err := netns.GetFromPath(n.Path("sw"))
			if err != nil {
				return nil, err
			}
			defer ns.Close()
			inner := host.InNetns(ns, func() error {
				conn, err = new(net.Dialer).DialContext(ctx, "tcp4", address)
				return err
			})
			return conn, inner
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	nstest.WaitFor(t, "BMv2", func() bool {
		conn.Connect()
		time.Sleep(50 * time.Millisecond)
		return conn.GetState() == connectivity.Ready
	})
	got, err := p4rt.Ask(t.Context(), conn, 77, p4.Info, p4.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("RADAR_P4_RECORD") != "" {
		text, err := json.MarshalIndent(got, "", " ")
		if err == nil {
			err = os.MkdirAll(filepath.Dir(answersFile), 0o755)
		}
		if err == nil {
			err = os.WriteFile(answersFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []p4rt.Answer
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(recorded, got); d != "" {
		t.Errorf("answers (-recorded +got): %s", d)
	}
	fmt.Printf("answers of a switch: %d\n", len(got))
}
