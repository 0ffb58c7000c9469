// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
)

// TestInfluxMakesDatabase: a database that a real server does not have, whatever it is called, or has
// lost meanwhile, is made, and has every point.
func TestInfluxMakesDatabase(t *testing.T) {
	t.Parallel()
	server := newInfluxd(t)
	for _, name := range []string{"nowhere", `an odd "name"`} {
		t.Run(name, func(t *testing.T) {
			server.db = name
			var l sinktest.Log
			w := sinktest.NewWorld(t, server.output(t, &l, url.QueryEscape(name))).Start(0)
			w.Feed(1000) // several batches
			w.Written("influx", len(w.Events))
			if n := server.count(); n != len(w.Events) {
				t.Errorf("%d points of %d events", n, len(w.Events))
			}
			server.ask("q", "DROP DATABASE "+sink.Quoted(name))
			more := w.Feed(100)
			w.Close()
			if n := server.count(); n != more {
				t.Errorf("%d points of %d events in the second database", n, more)
			}
			if n := w.Tally("influx"); n.GivenUp.Load()+n.DroppedEvents.Load() != 0 || n.Written.Load() != uint64(len(w.Events)) {
				t.Errorf("of %d events: written %d, given up %d", len(w.Events), n.Written.Load(), n.GivenUp.Load())
			}
			if said := l.String(); strings.Count(said, "which is made") != 2 || strings.Contains(said, "WARN") {
				t.Errorf("said: %s", said)
			}
		})
	}
}

// TestInfluxWaitsForDatabase: who may write but make no database keeps the points until somebody
// has made it, and says what that takes.
func TestInfluxWaitsForDatabase(t *testing.T) {
	t.Parallel()
	server := newInfluxdOf(t, url.UserPassword("admin", "word"))
	server.ask("q", "CREATE USER writer WITH PASSWORD 'secret'")
	server.ask("q", "GRANT WRITE ON radar TO writer")
	server.ask("q", "DROP DATABASE radar")
	var l sinktest.Log
	o, err := sink.NewInflux(strings.Replace(server.address, "//", "//writer:secret@", 1)+"/?db=radar", "", sinktest.OddName, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	w := sinktest.NewWorld(t, o).Start(0)
	w.Feed(1000)
	nstest.WaitFor(t, "to hear that the database cannot be made", func() bool { return strings.Contains(l.String(), "cannot be made") })
	if said := l.String(); !strings.Contains(said, "CREATE DATABASE") || strings.Contains(said, "secret") {
		t.Errorf("said: %s", said)
	}
	server.ask("q", "CREATE DATABASE radar")
	retries := w.Tally("influx").Retries.Load()
	nstest.WaitFor(t, "an attempt without rights", func() bool { return w.Tally("influx").Retries.Load() > retries+1 })
	server.ask("q", "GRANT WRITE ON radar TO writer")
	w.Close()
	n := w.Tally("influx")
	if n.Written.Load() != uint64(len(w.Events)) || n.GivenUp.Load()+n.DroppedEvents.Load() != 0 || n.Retries.Load() == 0 {
		t.Errorf("of %d events: written %d, given up %d, %d retries", len(w.Events), n.Written.Load(), n.GivenUp.Load(), n.Retries.Load())
	}
	if n := server.count(); n != len(w.Events) {
		t.Errorf("%d points of %d events", n, len(w.Events))
	}
}

// TestInfluxBucket: a bucket that version 2 does not have is waited for; a wrong address is not.
func TestInfluxBucket(t *testing.T) {
	for _, c := range []struct {
		name, text string
		waits      bool
	}{
		{"no bucket", `{"code":"not found","message":"bucket \"b\" not found"}`, true},
		{"no path", `{"code":"not found","message":"path not found"}`, false},
		{"no InfluxDB", "404 page not found", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newAnswers(t, http.StatusNotFound, http.StatusNoContent)
			server.text = c.text
			var l sinktest.Log
			o, err := sink.NewInflux(server.URL+"/?org=o&bucket=b", "", sinktest.OddName, l.Logger())
			if err != nil {
				t.Fatal(err)
			}
			w := sinktest.NewWorld(t, o).Start(0)
			w.Feed(10)
			w.Close()
			n, all := w.Tally("influx"), uint64(len(w.Events))
			if c.waits != (n.Written.Load() == all && n.Retries.Load() == 1) || c.waits != (n.GivenUp.Load() == 0) {
				t.Errorf("of %d: written %d, given up %d, %d retries", all, n.Written.Load(), n.GivenUp.Load(), n.Retries.Load())
			}
			if c.waits != strings.Contains(l.String(), "influx bucket create --org") {
				t.Errorf("said: %s", l.String())
			}
		})
	}
}
