// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/telemetry/xdp"
	"github.com/vnetradar/radar/pkg/words"
)

// fastFlags are the flags of "radar collect" about its fast path.
type fastFlags struct {
	device string
	mode   kit.Choice
}

func (f *fastFlags) register(cmd *cobra.Command) {
	f.mode = kit.NewChoice(string(xdp.Auto), "XDP mode", xdp.Modes()...)
	cmd.Flags().StringVar(&f.device, "xdp", "", "take reports that say nothing new at XDP of this interface, before the stack sees them")
	f.mode.Add(cmd, "xdp-mode", "how its program is attached (auto: generic on a veth, whose peer native mode would change)")
}

func (f *fastFlags) check(cmd *cobra.Command, file string) error {
	switch {
	case f.device != "" && file != "":
		return fault.Usage.Errorf("--xdp and -r FILE: use one of them")
	case f.device == "" && kit.IsTyped(cmd, "xdp-mode"):
		return fault.Usage.Errorf("--xdp-mode says how --xdp DEVICE is attached")
	case f.device == "":
		return nil
	}
	if err := xdp.Check(f.device); err != nil { // before what is kept goes
		return fmt.Errorf("--xdp: %w", err)
	}
	return nil
}

// attach attaches the fast path; nil if none is asked for. On a kernel without it, it says so.
func (f *fastFlags) attach(k *kit.Kit, inputs []collect.Input, allow []netip.Prefix, c *metrics.Config) (*xdp.Path, error) {
	if f.device == "" {
		return nil, nil
	}
	o := xdp.Options{Device: f.device, Mode: xdp.Mode(f.mode.Value), Shared: c.MaxShared(), Flows: c.Flows, Age: c.Age, Allow: allow}
	for _, in := range inputs { // --listen, or any
		s, ok := in.(*collect.Socket)
		if !ok {
			continue // an interface, which --xdp is not used with
		}
		o.Ports = append(o.Ports, s.Addr().Port())
		if addr := s.Addr().Addr(); !addr.IsUnspecified() {
			o.Addresses = []netip.Addr{addr}
		}
	}
	path, err := xdp.Attach(o)
	if errors.Is(err, xdp.ErrTooOld) {
		k.Notef("%v: reports come by the socket alone", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--xdp: %w", err)
	}
	fmt.Fprintf(k.Stderr, "radar: XDP at %s, %s\n", f.device, path.Mode)
	if path.NoNative != nil {
		k.Notef("not native: %v", path.NoNative)
	}
	return path, nil
}

// stopPath detaches the fast path, if there is one; what is on its way up is still read.
func (c *collecting) stopPath() error {
	if c.path == nil {
		return nil
	}
	return c.path.Stop()
}

// closePath detaches the fast path, if there is one.
func (c *collecting) closePath() error {
	if c.path == nil {
		return nil
	}
	return c.path.Close()
}

// printFast says what the fast path did.
func printFast(k *kit.Kit, i *collect.Info) {
	if i.XDP == nil {
		return
	}
	fmt.Fprintf(k.Stderr, "radar: XDP at %s: %s said nothing new and went no further, %d went up\n", i.XDP.Device, words.Plural(int(i.XDP.FastPath), "report"), i.XDP.SlowPath)
	if i.XDP.QueueDrops > 0 {
		fmt.Fprintf(k.Stderr, "radar: %s dropped at XDP: the queue to the collector was full\n", words.Plural(int(i.XDP.QueueDrops), "report"))
	}
	if i.XDP.Full > 0 {
		fmt.Fprintf(k.Stderr, "radar: %d times there was no room for a flow at XDP (--flows)\n", i.XDP.Full)
	}
}
