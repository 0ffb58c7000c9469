// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/otlp"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const otlpLong = `Send traces by OTLP, OpenTelemetry's protocol, to Jaeger and others: of packets as they
end, from now on, until Ctrl-C, or with --last, --since, --until or -r of those that
there are.

A packet is a trace, a hop a span of the service that is called as the node, a wait in a
queue a span below it, a loss an error with an event that says where and why. IDs follow
from the packet's: one that is sent twice is one trace. What is in a span, and what is
not, says docs/export.md.

--sample 1/N sends 1 packet in N, chosen by its id; --sample flow:1/N all packets of
1 flow in N, in both directions. Lost packets are always sent (--no-keep-losses: not).
--rate N/s sends at most N packets of a second, lost ones too.

Where the flags do not say, OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, _INSECURE,
_CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY, _COMPRESSION and _TIMEOUT do, and those
with TRACES_ (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) before them.

radar waits for no collector: packets that end now wait in a queue, and what has no room
there is counted. What there is (-r and so on) waits for one that is slow or away, for 10
minutes at most until it takes something again. Packets to the collector itself are not exported. Standard error says
at the end what was sent, what was not, and why; -o json prints it.

` + kit.SelectionHelp

const otlpExample = `  radar export otlp                                        # to http://localhost:4317
  radar export otlp --endpoint http://10.0.0.9:4317 --sample 1/100
  radar export otlp --protocol http --endpoint https://otlp.example.net --header Authorization='Bearer T'
  radar export otlp -r run1 --state lost
  radar export otlp --sample flow:1/10 --rate 500/s tcp port 443`

// otlpOptions are the flags of "radar export otlp".
type otlpOptions struct {
	kit.SelectFlags
	endpoint      string
	protocol      kit.Choice
	headers       []string
	insecure      bool
	ca, cert, key string
	sample        sampleFlag
	rate          rateFlag
	noKeepLosses  bool
	timeout       time.Duration
	flushTimeout  time.Duration
}

func newOTLPCmd(k *kit.Kit, version string) *cobra.Command {
	f := &otlpOptions{protocol: kit.NewChoice(protocolGRPC, "protocol", protocolGRPC, protocolHTTP), timeout: 10 * time.Second, flushTimeout: 10 * time.Second}
	cmd := &cobra.Command{
		Use: "otlp " + kit.EndsUse, Short: "Send traces of packets by OTLP (OpenTelemetry)", Long: otlpLong, Example: otlpExample,
		RunE: func(cmd *cobra.Command, args []string) error { return runOTLP(k, cmd, f, args, version) },
	}
	f.Add(k, cmd, "export the newest N packets that there are, and end; 0: all")
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "where traces go: http://HOST:PORT, https://HOST:PORT (TLS), or HOST:PORT (TLS, unless --insecure)")
	f.protocol.Add(cmd, "protocol", "OTLP/gRPC or OTLP/HTTP with protobuf")
	flags.StringArrayVar(&f.headers, "header", nil, "header of each request, NAME=VALUE (repeatable)")
	flags.BoolVar(&f.insecure, "insecure", false, "without TLS, where the endpoint does not say")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM file with the authorities that the collector's certificate may be of")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with our own certificate")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	flags.Var(&f.sample, "sample", "send 1 packet in N: 1/N, or all packets of 1 flow in N: flow:1/N")
	flags.Var(&f.rate, "rate", "send at most N packets of a second: N/s")
	flags.BoolVar(&f.noKeepLosses, "no-keep-losses", false, "sample lost packets as all others")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long a request may take")
	flags.DurationVar(&f.flushTimeout, "flush-timeout", f.flushTimeout, "how long sending goes on after Ctrl-C")
	for _, name := range []string{"tls-ca", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

func runOTLP(k *kit.Kit, cmd *cobra.Command, f *otlpOptions, args []string, version string) error {
	s, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return err
	}
	if err := refuseInFlight(s); err != nil {
		return err
	}
	to, err := f.collector(k, cmd, version)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	history := asksHistory(cmd, f.Given())
	x := &traceExport{feed: feed{Kit: k, ctx: ctx}, options: f, to: to, wait: history, version: version}
	x.sampler = otlp.Sampler{OneIn: f.sample.oneIn, Flows: f.sample.flows, KeepLosses: !f.noKeepLosses, Rate: f.rate.perSecond}
	x.isOwn, x.take, x.changed = x.own, x.add, func(*domain.Domain) {}
	x.polled = func(int64) { x.sender.Flush(ctx, false) }
	if history {
		err = x.history(s, x.begin)
	} else {
		err = x.live(s, x.begin)
	}
	if x.sender == nil {
		return err
	}
	// What there is goes on until all is sent, or until Ctrl-C. Of what comes that has been.
	until, ended := context.WithCancel(ctx)
	defer ended()
	if !history {
		ended()
	}
	x.sender.Close(until, f.flushTimeout)
	return errors.Join(err, x.printEnd(), x.verdict())
}

// traceExport is an export of traces at work.
type traceExport struct {
	feed
	options *otlpOptions
	to      *collector
	addrs   []netip.AddrPort
	sampler otlp.Sampler
	sender  *otlp.Sender
	wait    bool // what there is waits for the collector; what comes does not
	version string
}

// begin looks whether somebody listens, and begins to send.
func (x *traceExport) begin(d *domain.Domain) error {
	addrs, err := x.to.find(x.ctx)
	if err != nil {
		return err
	}
	x.addrs = addrs
	transport, err := x.to.open()
	if err != nil {
		return err
	}
	name := x.Domain
	if d != nil {
		name = d.Name
	}
	x.sender = otlp.NewSender(&otlp.Maker{Domain: name}, transport, x.version)
	if x.wait {
		x.sender.Away = otlp.MostAway
		x.sender.Again = func(why error) {
			fmt.Fprintf(x.Stderr, "radar: %s takes no spans for now (%v): they are sent again, for %v at most\n", x.to.shown, why, otlp.MostAway)
		}
	}
	return x.printStart()
}

func (x *traceExport) own(r *record.Record) bool { return isOwnTCP(r, x.addrs) }

func (x *traceExport) add(r *record.Record) {
	if x.sampler.Take(r) {
		x.sender.Add(x.ctx, r, x.wait)
	}
}

// verdict fails if there was something to send, and nothing was taken; of what there is, if not all was.
func (x *traceExport) verdict() error {
	c := x.sender.Counts()
	switch {
	case c.Spans > 0 && c.Sent == 0:
		return fmt.Errorf("%s took no span", x.to.shown)
	case x.wait && x.ctx.Err() == nil && c.Sent+c.Rejected < c.Spans:
		return fmt.Errorf("%s took %d of %d spans", x.to.shown, c.Sent, c.Spans)
	}
	return nil
}

// sampleFlag is the value of --sample.
type sampleFlag struct {
	oneIn uint64
	flows bool
}

func (f *sampleFlag) String() string {
	switch {
	case f.oneIn == 0:
		return ""
	case f.flows:
		return fmt.Sprintf("flow:1/%d", f.oneIn)
	}
	return fmt.Sprintf("1/%d", f.oneIn)
}

// Type names the value in help texts.
func (f *sampleFlag) Type() string { return "[flow:]1/N" }

// Set parses the value.
func (f *sampleFlag) Set(s string) error {
	v := sampleFlag{}
	rest := s
	if _, err := fmt.Sscanf(rest, "flow:1/%d", &v.oneIn); err == nil {
		v.flows = true
	} else if _, err := fmt.Sscanf(rest, "1/%d", &v.oneIn); err != nil {
		v.oneIn = 0
	}
	if v.oneIn == 0 || v.String() != s {
		return fmt.Errorf("%q: use 1/N or flow:1/N", s)
	}
	*f = v
	return nil
}

// rateFlag is the value of --rate.
type rateFlag struct{ perSecond uint64 }

func (f *rateFlag) String() string {
	if f.perSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%d/s", f.perSecond)
}

// Type names the value in help texts.
func (f *rateFlag) Type() string { return "N/s" }

// Set parses the value.
func (f *rateFlag) Set(s string) error {
	v := rateFlag{}
	if _, err := fmt.Sscanf(s, "%d/s", &v.perSecond); err != nil || v.String() != s || s == "" {
		return fmt.Errorf("%q: use N/s", s)
	}
	*f = v
	return nil
}

// collector is where traces go.
type collector struct {
	otlp.Settings
	protocol string
	address  string // HOST:PORT
	shown    string // as users know it
}

// open makes a transport.
func (c *collector) open() (otlp.Transport, error) {
	if c.protocol == protocolHTTP {
		return otlp.NewHTTP(c.Settings), nil
	}
	t, err := otlp.NewGRPC(c.Settings)
	if err != nil {
		return nil, fault.Usage.Errorf("--endpoint: %w", err)
	}
	return t, nil
}

// find returns the collector's addresses. Somebody must listen there: a wrong address shall not wait for the end.
func (c *collector) find(ctx context.Context) ([]netip.AddrPort, error) {
	return findListener(ctx, c.address, c.shown, "start an OTLP collector there (Jaeger: 4317 for gRPC, 4318 for HTTP), or say where one is: --endpoint")
}
