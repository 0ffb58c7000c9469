// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/ipfix"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const ipfixLong = `Send flow records by IPFIX (RFC 7011) about the packets that radar measures: as they
end, from now on, until Ctrl-C, or with --last, --since, --until or -r what there is.

A record is of the packets of one flow that took one path, at the node where they
ended (--mode passport), or at each node of the path (--mode postcard). It has the
delay from the source to that node, by the elements of RFC 9951: mean, least, most and
sum. Options records name the interfaces. What is in a record, and what is not, says
docs/export.md.

A flow ends when it has had no packet for --idle-timeout, has lasted for
--active-timeout, or there is no room for more (--flows): then the one whose packet is
the longest ago goes out. Times are those of the packets, so that a recording gives the
same flows whenever it is exported.

Over UDP messages fit the path's MTU, and templates are sent again every
--template-interval. Packets to the collector itself are not exported. Standard error
says at the end what was sent, what was not, and why; -o json prints it.

` + kit.SelectionHelp

const ipfixExample = `  radar export ipfix --collector 10.0.0.9:4739
  radar export ipfix --collector 10.0.0.9:4739 --transport tcp --mode postcard
  radar export ipfix --collector 127.0.0.1:9995 --active-timeout 10s tcp port 443
  radar export ipfix -r run1 --file run1.ipfix       # and then: tshark -r run1.ipfix -V`

// Where the record of a flow is made (RFC 9951, 1, has these words).
const (
	modePassport = "passport"
	modePostcard = "postcard"
)

// Ways to a collector.
const (
	overUDP = "udp"
	overTCP = "tcp"
)

// ipfixOptions are the flags of "radar export ipfix".
type ipfixOptions struct {
	kit.SelectFlags
	collector    string
	transport    kit.Choice
	mode         kit.Choice
	file         string
	domainID     uint32
	active, idle time.Duration
	templates    time.Duration
	flows        kit.Count
	mtu          uint16
	rate         kit.Count
}

func newIPFIXCmd(k *kit.Kit) *cobra.Command {
	f := &ipfixOptions{
		transport: kit.NewChoice(overUDP, "transport", overUDP, overTCP), mode: kit.NewChoice(modePassport, "mode", modePassport, modePostcard),
		active: time.Minute, idle: 15 * time.Second, templates: time.Minute, flows: 1 << 16, domainID: 1,
	}
	cmd := &cobra.Command{
		Use: "ipfix {--collector HOST:PORT | --file FILE} " + kit.EndsUse, Short: "Send flow records by IPFIX, with delays",
		Long: ipfixLong, Example: ipfixExample,
		RunE: func(cmd *cobra.Command, args []string) error { return runIPFIX(k, cmd, f, args) },
	}
	f.Add(k, cmd, "export the newest N packets that there are, and end; 0: all")
	flags := cmd.Flags()
	flags.StringVar(&f.collector, "collector", "", "where messages go, HOST:PORT or [IPV6]:PORT (IPFIX: 4739, nfcapd: 9995)")
	f.transport.Add(cmd, "transport", "how messages go")
	flags.StringVar(&f.file, "file", "", "write messages to FILE instead (RFC 5655), all of them or nothing")
	f.mode.Add(cmd, "mode", "passport: a record of the end of each path; postcard: one of each node")
	flags.Uint32Var(&f.domainID, "domain-id", f.domainID, "observation domain id")
	flags.DurationVar(&f.active, "active-timeout", f.active, "a flow's record goes out after so long, and another one begins")
	flags.DurationVar(&f.idle, "idle-timeout", f.idle, "a flow ends when it has had no packet for so long")
	flags.DurationVar(&f.templates, "template-interval", f.templates, "over UDP, send templates and names again after so long")
	flags.Var(&f.flows, "flows", "count at most so many flow records at a time")
	flags.Uint16Var(&f.mtu, "mtu", 0, "over UDP, bytes of an IP packet (default: the path's MTU, at most 1500)")
	flags.Var(&f.rate, "rate", "send at most N messages a second; 0: no limit")
	_ = cmd.MarkFlagFilename("file")
	return cmd
}

// leastMTU is what the longest record needs.
const leastMTU = ipfix.LeastBytes + headersIPv6

// check refuses what no domain would make right.
func (f *ipfixOptions) check(cmd *cobra.Command, s *answer.Selection) error {
	switch {
	case f.collector == "" && f.file == "":
		return fault.Usage.Errorf("no --collector: where shall flow records go? Use HOST:PORT, or --file FILE")
	case f.collector != "" && f.file != "":
		return fault.Usage.Errorf("--collector and --file: use one of them")
	case f.active < time.Second || f.idle < time.Second:
		return fault.Usage.Errorf("--active-timeout and --idle-timeout: use 1s or more")
	case f.templates < time.Second:
		return fault.Usage.Errorf("--template-interval: use 1s or more")
	case f.flows == 0:
		return fault.Usage.Errorf("--flows 0: use 1 or more")
	case f.mtu != 0 && f.mtu < leastMTU:
		return fault.Usage.Errorf("--mtu %d: use %d or more, records do not fit else", f.mtu, leastMTU)
	case f.mtu != 0 && (f.transport.Value == overTCP || f.file != ""):
		return fault.Usage.Errorf("--mtu: only over UDP")
	case kit.IsTyped(cmd, "template-interval") && (f.transport.Value == overTCP || f.file != ""):
		return fault.Usage.Errorf("--template-interval: only over UDP, else templates are sent once")
	}
	return refuseInFlight(s)
}

func runIPFIX(k *kit.Kit, cmd *cobra.Command, f *ipfixOptions, args []string) error {
	s, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return err
	}
	if err := f.check(cmd, s); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	history := asksHistory(cmd, f.Given())
	x := &flowExport{feed: feed{Kit: k, ctx: ctx}, options: f}
	var endPace context.CancelFunc
	x.pace, endPace = outlasting(ctx, flushWithin)
	defer endPace()
	x.isOwn, x.take, x.polled, x.changed = x.own, x.add, x.advance, func(d *domain.Domain) { x.exporter.SetPorts(portsOf(d)) }
	begin := func(d *domain.Domain) error { return x.begin(d, history) }
	if history {
		err = x.history(s, begin)
	} else {
		err = x.live(s, begin)
	}
	if err == nil && history && f.file != "" && ctx.Err() != nil {
		err = fmt.Errorf("--file %s: interrupted before it was whole", f.file)
	}
	if x.exporter == nil || f.file != "" && err != nil {
		return errors.Join(err, x.closeWay(false))
	}
	x.exporter.Flush()
	if err == nil {
		err = x.way.failure()
	}
	return errors.Join(err, x.closeWay(true), x.printEnd())
}

// flushWithin is how long --rate may hold up the end after Ctrl-C.
const flushWithin = 10 * time.Second

// outlasting ends so long after ctx.
func outlasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		kit.Wait(longer, d)
		end()
	})
	return longer, func() {
		stop()
		end()
	}
}

// flowExport is an export of flow records at work.
type flowExport struct {
	feed
	options  *ipfixOptions
	exporter *ipfix.Exporter
	way      way
	pacer    pacer
	pace     context.Context // how long that may wait
	stopped  uint64          // flow records that waited for --rate at the end
}

// way is how messages go.
type way interface {
	// send sends a message with so many flow records, or counts why not.
	send(b []byte, flows int)
	// renew says whether a session has begun since it was asked last.
	renew() bool
	own(r *record.Record) bool
	mostBytes() int
	counts() *wayCounts
	// failure is why the export has failed, though some of it may have gone.
	failure() error
	close(whole bool) error
}

// begin opens the way and says so.
func (x *flowExport) begin(d *domain.Domain, history bool) (err error) {
	f := x.options
	if x.way, err = f.open(x.ctx, history); err != nil {
		return err
	}
	o := ipfix.Options{
		Domain: f.domainID, Name: x.Domain, Postcards: f.mode.Value == modePostcard, Active: f.active, Idle: f.idle,
		MostFlows: int(f.flows), MostBytes: x.way.mostBytes(), Now: time.Now,
	}
	if f.transport.Value == overUDP && f.file == "" {
		o.Templates = f.templates
	}
	if !history {
		o.Settle = settle
	}
	x.pacer = newPacer(f.rate)
	x.exporter = ipfix.New(o, portsOf(d), x.send)
	return x.printStart()
}

// open opens the way that the flags name.
func (f *ipfixOptions) open(ctx context.Context, history bool) (way, error) {
	if f.file != "" {
		return newFileWay(f.file)
	}
	to, err := kit.ResolveCollector(ctx, f.collector)
	if err != nil {
		return nil, err
	}
	if f.transport.Value == overTCP {
		return newTCPWay(ctx, f.collector, to, history)
	}
	return newUDPWay(f.collector, to, f.mtu)
}

func (x *flowExport) closeWay(whole bool) error {
	if x.way == nil {
		return nil
	}
	return x.way.close(whole)
}

func (x *flowExport) own(r *record.Record) bool { return x.way.own(r) }

func (x *flowExport) add(r *record.Record) {
	x.renew()
	x.exporter.Add(r)
}

// settle is how long a packet may be under way before it is known how it ended: live, flows are not ended sooner.
const settle = 3 * time.Second

func (x *flowExport) advance(unixNs int64) {
	x.renew()
	x.exporter.Advance(unixNs)
}

// renew tells everything anew where the connection is a new one.
func (x *flowExport) renew() {
	if x.way.renew() {
		x.way.counts().lose(0, x.exporter.NewSession())
	}
}

func (x *flowExport) send(b []byte, flows int) {
	if !x.pacer.wait(x.pace) {
		x.stopped += uint64(flows)
		return
	}
	x.way.send(b, flows)
}

// portsOf are the ports of a domain, and of its virtual machines. Ports that are there come last: they have the last
// word on their name.
func portsOf(d *domain.Domain) (list []ipfix.Port) {
	if d == nil {
		return nil
	}
	for _, removed := range []bool{true, false} {
		for i := range d.Ports {
			p := &d.Ports[i]
			if vm := d.VMByID(p.VM); p.Removed == removed && vm != nil { // a tap is its machine's port, too
				list = append(list, ipfix.Port{Number: uint32(p.ID) + 1, NodeNumber: uint32(p.VM), Node: vm.Name, Name: p.Name})
			}
			if n := d.NodeByID(p.Node); p.Removed == removed && n != nil {
				list = append(list, ipfix.Port{Number: uint32(p.ID) + 1, NodeNumber: uint32(p.Node), Node: n.Name, Name: p.Name})
			}
		}
	}
	return list
}
