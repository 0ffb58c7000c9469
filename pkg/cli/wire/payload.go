// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/payload"
)

// PayloadHelp is what commands say about payload.
const PayloadHelp = `Payload is what users send, so none is captured unless it is asked for. --snaplen N adds
the first N bytes of it at the ports of --payload-at, or of --at: of packets that are
measured, from now on. A small program stands at these ports until the command ends.`

// PayloadFlags choose payload.
type PayloadFlags struct {
	len int
	at  []string
}

// Add adds the flags.
func (f *PayloadFlags) Add(k *kit.Kit, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.len, "snaplen", 0, fmt.Sprintf("capture the first N bytes of payload as well, at most %d; 0: none", payload.MaxLen))
	flags.StringSliceVar(&f.at, "payload-at", nil, "with --snaplen, at this node or port (NODE, NODE/PORT); without: those of --at")
	_ = cmd.RegisterFlagCompletionFunc("payload-at", k.CompleteNodes)
}

// Query is what the flags ask for; nil: no payload. at are the ports of --at.
func (f *PayloadFlags) Query(at []string) (*PayloadQuery, error) {
	f.at = slices.DeleteFunc(f.at, func(name string) bool { return name == "" }) // as Wireshark gives it
	switch {
	case f.len == 0 && len(f.at) > 0:
		return nil, fault.Usage.Errorf("--payload-at: say how many bytes of each packet: --snaplen N")
	case f.len == 0:
		return nil, nil
	case f.len < 0 || f.len > payload.MaxLen:
		return nil, fault.Usage.Errorf("--snaplen %d: use 1 to %d", f.len, payload.MaxLen)
	case len(f.at)+len(at) == 0:
		return nil, fault.Usage.Errorf("--snaplen: at which ports? --payload-at NODE/PORT, or --at to have frames of these ports alone")
	case len(f.at) == 0:
		return &PayloadQuery{Len: f.len, At: at, flag: "--at"}, nil
	}
	for _, name := range f.at {
		node, port, _ := strings.Cut(name, "/")
		if !Ports(at).Have(node, port) && !(port == "" && slices.ContainsFunc(at, func(one string) bool { return strings.HasPrefix(one, name+"/") })) {
			return nil, fault.Usage.Errorf("--payload-at %q: --at leaves the frames of that port out", name)
		}
	}
	return &PayloadQuery{Len: f.len, At: f.at, flag: "--payload-at"}, nil
}

// PayloadQuery says how much payload is captured, and where.
type PayloadQuery struct {
	Len  int
	At   Ports
	flag string // that named the ports
}

// payloadCapture is a capture of payload that runs. nil: there is none.
type payloadCapture struct {
	*payload.Capture
	len int
}

// open begins it.
func (q *PayloadQuery) open(k *kit.Kit, d *domain.Domain) (*payloadCapture, error) {
	if q == nil {
		return nil, nil
	}
	if err := q.At.check(attached(d).Network(), q.flag); err != nil {
		return nil, err
	}
	c, err := payload.Open(d, payload.Options{Len: q.Len, At: q.At.Have})
	if err != nil {
		return nil, err
	}
	if len(c.Without) > 0 {
		fmt.Fprintf(k.Stderr, "radar: no payload of %s: what leaves the domain there needs TCX (Linux 6.6, attach --hook tcx)\n", strings.Join(c.Without, ", "))
	}
	return &payloadCapture{c, q.Len}, nil
}

// attached is d without the nodes that have no ports: those that were detached stay listed for the packets that they had.
func attached(d *domain.Domain) *domain.Domain {
	now := *d
	now.Nodes = slices.DeleteFunc(slices.Clone(d.Nodes), func(n domain.Node) bool {
		return !slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return p.Node == n.ID && !p.Removed })
	})
	return &now
}

func (c *payloadCapture) close() {
	if c != nil {
		_ = c.Capture.Close()
	}
}

// where says what is captured.
func (c *payloadCapture) where() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" with up to %d bytes of payload at %s", c.len, strings.Join(c.Ports, ", "))
}

func (c *payloadCapture) drain() {
	if c != nil {
		c.Drain()
	}
}

func (c *payloadCapture) take(pos uint64) (list []pcapng.Payload) {
	if c == nil {
		return nil
	}
	for _, p := range c.Take(pos) {
		list = append(list, pcapng.Payload{Node: p.Node, Port: p.Port, Out: p.Out, Data: p.Data, Header: p.Header, Length: p.Length})
	}
	return list
}

// say says what became of payload; quiet: only what is missing.
func (c *payloadCapture) say(k *kit.Kit, file *File, quiet bool) error {
	if c == nil {
		return nil
	}
	err := c.Detach()
	c.Drain() // what is left belongs to nobody
	n, more := c.Counts()
	if err = errors.Join(err, more); err != nil {
		return err
	}
	for _, line := range payloadLines(file.Stats(), n, quiet) {
		fmt.Fprintf(k.Stderr, "radar: %s\n", line)
	}
	return nil
}

func payloadLines(s pcapng.Stats, n payload.Counts, quiet bool) (lines []string) {
	if quiet && s.NoPayload == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf("payload in %d frames, missing in %d", s.Payload, s.NoPayload))
	for _, cause := range []struct {
		n    uint64
		text string
	}{
		{n.NoIdentity, "are not measured, or nothing tells which packet they are"},
		{n.RingFull, "came while the ring buffer was full"},
		{n.Unreadable, "could not be read"},
		{n.Crowded, "gave way to later ones, as 64 MiB waited for records"},
		{n.Unclaimed, "belong to packets that are not in the capture"},
	} {
		if cause.n > 0 {
			lines = append(lines, fmt.Sprintf("of the packets at these ports %d %s", cause.n, cause.text))
		}
	}
	return lines
}
