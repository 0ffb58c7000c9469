// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/pkg/host"
)

// What an agent cannot do others read from its process, in the order in which it began, and no
// longer when it works again.
func TestTroubles(t *testing.T) {
	of, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	self := Process{of}
	tr, err := NewTroubles()
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	want := func(texts ...string) {
		t.Helper()
		list, err := self.Troubles()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range list {
			got = append(got, fmt.Sprintf("%s %.4s %v", x.What, x.Error, x.Full))
		}
		if strings.Join(got, ", ") != strings.Join(texts, ", ") {
			t.Errorf("troubles %q, want %q", got, texts)
		}
	}
	set := func(what string, err error) {
		t.Helper()
		if err := tr.set(what, err); err != nil {
			t.Error(err)
		}
	}
	want()
	set("walk", nil)
	want()
	set("walk", errors.New(strings.Repeat("lame", 10_000)))
	set("save", fmt.Errorf("save: %w", errors.Join(&fs.PathError{Op: "write", Path: "/run/x", Err: syscall.ENOSPC}, errors.New("and more"))))
	want("walk lame false", "save no s true")
	set("walk", errors.New("blind"))
	want("walk blin false", "save no s true")
	set("save", nil)
	want("walk blin false")
	for i := range 2 * maxTroubles {
		set(fmt.Sprint("task ", i), errors.New(strings.Repeat("\x01", maxError)))
	}
	if list, err := self.Troubles(); err != nil || len(list) != maxTroubles {
		t.Errorf("%d troubles (%v), want %d at most", len(list), err, maxTroubles)
	}
	for _, x := range append([]Trouble(nil), tr.list...) {
		set(x.What, nil)
	}
	want()
	if list, err := (Process{host.Process{PID: 1 << 30}}).Troubles(); err != nil || list != nil {
		t.Errorf("of no process: %v, %v", list, err)
	}
}
