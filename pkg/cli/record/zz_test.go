package record_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

func TestZZ(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.Settled(10)
	t.Log(w.Radar(kit.ExitOK, "detach"))
	out, _ := exec.Command("find", dir, "-ls").CombinedOutput()
	t.Log(string(out))
	t.Log(w.Radar(kit.ExitOK, "packets", "-r", dir))
}
