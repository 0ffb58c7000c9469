// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"os"
	"reflect"
	"testing"

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
