// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/words"
)

// checkInputs says whether what is asked for can be read together.
func (f *options) checkInputs(cmd *cobra.Command) error {
	listen := kit.IsTyped(cmd, "listen")
	switch {
	case f.file != "" && listen:
		return fault.Usage.Errorf("--listen and -r FILE: use one of them")
	case f.file != "" && f.device != "":
		return fault.Usage.Errorf("--interface and -r FILE: use one of them")
	case f.device != "" && listen:
		return fault.Usage.Errorf("--interface and --listen: use one of them: an interface's reports are taken whoever they are for")
	case f.device != "" && f.fast.device != "":
		return fault.Usage.Errorf("--interface and --xdp: use one of them: what goes no further at XDP is not seen at the interface")
	}
	return nil
}

// openInputs opens a file, an interface, or a socket for each port.
func (c *collecting) openInputs(f *options) (closeInput func(), err error) {
	if f.file != "" {
		c.capture, closeInput, err = c.OpenCapture(f.file)
		return closeInput, err
	}
	var addr netip.Addr
	if f.listen != "" {
		if addr, err = netip.ParseAddr(f.listen); err != nil {
			return nil, fault.Usage.Errorf("--listen %q: no IP address of this machine", f.listen)
		}
	}
	closeInput = func() {
		for _, in := range c.inputs {
			in.Close()
		}
	}
	if f.device != "" {
		ports := make([]uint16, len(f.ports))
		for i, port := range f.ports {
			ports[i] = uint16(port)
		}
		in, err := collect.OpenInterface(f.device, ports)
		if err != nil {
			return nil, err
		}
		in.Warn = func(text string) { fmt.Fprintf(c.Stderr, "radar: %s\n", text) }
		c.inputs = append(c.inputs, in)
		return closeInput, nil
	}
	for _, port := range f.ports {
		s, err := collect.Listen(addr, uint16(port))
		if err != nil {
			closeInput()
			return nil, err
		}
		c.inputs = append(c.inputs, s)
	}
	return closeInput, nil
}

// endTime is how long what waits in sockets may take at the end.
const endTime = 3 * time.Second

// finishInputs closes the sockets. What waits in them is still taken, unless an error has ended us.
func (c *collecting) finishInputs() {
	most := endTime
	if err := context.Cause(c.ctx); !errors.Is(err, context.Canceled) {
		most = 0
	}
	for _, in := range c.inputs {
		if left := in.Finish(most); left > 0 {
			fmt.Fprintf(c.Stderr, "radar: warning: %s waited at %v at the end and were not taken\n", words.Plural(int(left), "datagram"), in)
		}
	}
}

// completeSource completes the profile behind ADDRESS=.
func completeSource(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	addr, _, ok := strings.Cut(typed, "=")
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return kit.ProfileCompletions(addr + "="), cobra.ShellCompDirectiveNoFileComp
}
