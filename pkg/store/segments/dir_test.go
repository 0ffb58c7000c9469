// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestManyEventFiles: files of events take no descriptor while a recording is open, and all files together one
// description. A file of events that is removed before it is read was too old.
func TestManyEventFiles(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, quiet)
	for i := range 5 {
		if err := w.AddEvent(time.Unix(0, base+int64(i)), "attach", map[string]any{"node": fmt.Sprint("h", i)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	isOpen := func() (n int) {
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir+"/") && strings.HasSuffix(to, ending) {
				n++
			}
		}
		return n
	}
	read := func() (n int) {
		if err := d.Events(context.Background(), func(Event) error { n++; return nil }); err != nil || len(d.Damage()) > 0 {
			t.Errorf("%v, damage %v", err, d.Damage())
		}
		return n
	}
	if n := isOpen(); n != 0 {
		t.Errorf("%d files of events are open", n)
	}
	if n := read(); n != 5 || isOpen() != 0 {
		t.Errorf("%d events, %d files are open behind them", n, isOpen())
	}
	for _, s := range d.all {
		if a, b := s.r.Meta[keyMeta], d.all[0].r.Meta[keyMeta]; unsafe.StringData(a) != unsafe.StringData(b) || s.meta != d.all[0].meta {
			t.Errorf("%s has a description of its own", s.name)
		}
	}
	if err := os.Remove(filepath.Join(dir, d.all[0].name)); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != 4 {
		t.Errorf("%d events are left of 5", n)
	}
}
