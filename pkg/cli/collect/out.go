// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/api/page"
	v1 "github.com/vnetradar/radar/pkg/api/v1"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/words"
)

// outFlags are the flags of "radar collect" about where events and values go.
type outFlags struct {
	json, http, influx string
	hosts              []string
	snapshot           time.Duration
}

func (f *outFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.json, "json", "", "append events and snapshots to a file as JSON lines (- is standard output)")
	flags.StringVar(&f.http, "http", "", "start the server of radar serve with what this collector finds: /metrics, /events and /values, too; at ADDRESS:PORT, or a port of 127.0.0.1. Elsewhere than at 127.0.0.1 it has these three only")
	flags.StringSliceVar(&f.hosts, "http-host", nil, "names by which clients may call the server of --http, beside localhost and any address")
	flags.StringVar(&f.influx, "influx", "", "write to InfluxDB, http://HOST:PORT/?db=NAME, or of version 2 ?org=NAME&bucket=NAME with its token in INFLUX_TOKEN")
	flags.DurationVar(&f.snapshot, "snapshot", 10*time.Second, "time between snapshots of all values for files and InfluxDB; 0: events only")
}

// stdout says whether standard output is one of them.
func (f *outFlags) stdout() bool { return f.json == "-" }

// outs are the ways out of a collector.
type outs struct {
	*sink.Fanout
	Observe func(m metrics.Metric, node uint32, ns uint64) // for the engine, nil: nobody asks
	any     bool
	files   []io.Closer
}

// openOutputs opens the outputs that the flags ask for, before anything is collected. shows says that
// standard output is taken.
func (f *outFlags) openOutputs(k *kit.Kit, n metrics.Namer, shows bool, version string) (_ *outs, err error) {
	if f.snapshot < 0 || f.snapshot > 0 && f.snapshot < 100*time.Millisecond {
		return nil, fault.Usage.Errorf("--snapshot %v: use 0, or at least 100ms", f.snapshot)
	}
	if f.stdout() && shows {
		return nil, fault.Usage.Errorf("--json - and --show: use one of them, or a file")
	}
	if len(f.hosts) > 0 && f.http == "" {
		return nil, fault.Usage.Errorf("--http-host is about --http: give both")
	}
	o := &outs{Fanout: &sink.Fanout{}, any: f.json != "" || f.http != "" || f.influx != ""}
	defer func() {
		if err != nil {
			o.closeFiles()
		}
	}()
	log := slog.New(kit.NewLineHandler(k.Stderr))
	if f.influx != "" {
		token, _ := k.LookupEnv("INFLUX_TOKEN")
		influx, err := sink.NewInflux(f.influx, token, n, log)
		if err != nil {
			return nil, fault.Usage.Errorf("--influx: %w", err)
		}
		o.Add(influx)
	}
	if f.stdout() {
		o.Add(sink.NewLines(k.ForPrograms(), n, log))
	} else if f.json != "" {
		file, err := os.OpenFile(f.json, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		o.files = append(o.files, file)
		o.Add(sink.NewLines(file, n, log))
	}
	if f.http != "" {
		reports, err := f.openServer(k, n, version, log)
		if err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
		o.files = append(o.files, reports)
		o.Add(reports)
		o.Observe = reports.Observe
	}
	return o, nil
}

// openServer opens the server of "radar serve" with what this collector finds. Where other machines can reach it, there
// is no TLS, and no token: it has nothing then but what the collector finds.
func (f *outFlags) openServer(k *kit.Kit, n metrics.Namer, version string, log *slog.Logger) (*api.Reports, error) {
	if !api.IsLoopback(f.http) {
		reports, err := api.ListenReports(f.http, f.hosts, k.Domain, n, kit.Face, log)
		if err == nil {
			fmt.Fprintf(k.Stderr, "radar: serving http://%v/metrics, /events and /values, without the page: radar serve has it for other machines, by TLS\n", reports.Server().Addr())
		}
		return reports, err
	}
	token, path, err := api.OwnToken()
	if err != nil {
		return nil, err
	}
	guard := &api.Guard{Token: token, OpenReading: true, Public: v1.Public}
	server, err := api.Listen(api.Config{
		Address: f.http, Names: f.hosts, OtherName: api.ReportsOtherName, Face: kit.Face, Log: log, Listeners: v1.Listeners, Guard: guard,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	reports := api.NewReports(k.Domain, n, kit.Face)
	reports.AddTo(server, cancel)
	v1.Serve(ctx, server, v1.Config{Version: version, Default: k.Domain, Page: page.Files(), Live: reports, Guard: guard, Face: kit.Face, Log: log})
	fmt.Fprintf(k.Stderr, "radar: serving http://%v/, with /metrics, /events and /values of what is collected\n", server.Addr())
	fmt.Fprintf(k.Stderr, "radar: the token for steering is in %s\n", path)
	return reports, nil
}

func (o *outs) closeFiles() error {
	var all []error
	for _, file := range o.files {
		if err := file.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// startOutputs begins to give out what the collector finds. engine is the collector's.
func (c *collecting) startOutputs(o *outs, engine *metrics.Engine, snapshot time.Duration) {
	if !o.any {
		return
	}
	c.collector.Changed, engine.Observe = both(c.collector.Changed, o.Event), o.Observe
	o.Failed, c.collector.Outputs = c.cancel, o.Info
	if c.capture != nil { // a file can wait
		o.Wait = c.ctx.Done()
	}
	o.Start(c.collector, snapshot)
}

// both calls first, which may be nil, and then the other.
func both(first, then func(*metrics.Event)) func(*metrics.Event) {
	if first == nil {
		return then
	}
	return func(e *metrics.Event) {
		first(e)
		then(e)
	}
}

// endOutputs waits until outputs have what was found, and says what they have not.
func (o *outs) endOutputs(k *kit.Kit) error {
	o.Close()
	o.Each(func(name string, n *sink.Tally) {
		if events, values := n.DroppedEvents.Load(), n.DroppedValues.Load(); events+values > 0 {
			fmt.Fprintf(k.Stderr, "radar: --%s was too slow for %s and %s\n", name, words.Plural(int(events), "event"), words.Plural(int(values), "value"))
		}
		if n := n.GivenUp.Load(); n > 0 {
			fmt.Fprintf(k.Stderr, "radar: --%s did not take %s\n", name, words.Plural(int(n), "event or value"))
		}
	})
	return o.closeFiles()
}
