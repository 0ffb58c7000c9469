// SPDX-License-Identifier: Apache-2.0

// Package wire is what commands share that write packets as captures: where a capture goes, which
// ports it has, and following a ring.
package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Stdout is the name of standard output.
const Stdout = "-"

// Ports are those that a capture has, NODE or NODE/PORT; none: all.
type Ports []string

// Check refuses names that the domain does not have.
func (p Ports) Check(d *domain.Domain) error { return p.check(d.Network(), "--at") }

func (p Ports) check(d *system.Network, flag string) error {
	for _, name := range p {
		node, _, _ := strings.Cut(name, "/")
		known, nodes := names(d, node)
		switch {
		case slices.Contains(nodes, name) || slices.Contains(known, name):
		case !slices.Contains(nodes, node):
			return fault.Usage.Errorf("%s %q: domain %s has no such node, its nodes are %s", flag, name, d.Name, strings.Join(nodes, ", "))
		default:
			return fault.Usage.Errorf("%s %q: the node has no such port, its ports are %s", flag, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// names are a node's ports, and all nodes.
func names(d *system.Network, node string) (ports, nodes []string) {
	for _, n := range d.Nodes {
		if !n.Machine && !slices.Contains(nodes, n.Name) {
			nodes = append(nodes, n.Name)
		}
	}
	for _, name := range Interfaces(d) {
		if of, _, _ := strings.Cut(name, "/"); of == node {
			ports = append(ports, name)
		}
	}
	return ports, nodes
}

// Have reports whether the capture has a port; port is "" where a packet was lost inside a node.
func (p Ports) Have(node, port string) bool {
	return len(p) == 0 || slices.ContainsFunc(p, func(name string) bool { return name == node || name == node+"/"+port })
}

// Interfaces are the ports of a domain as a capture calls them, node by node.
func Interfaces(d *system.Network) (list []string) {
	for _, n := range d.Nodes {
		for _, p := range d.Ports {
			if name := n.Name + "/" + p.Name; !n.Machine && p.Node == n.ID && !p.Removed && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// File is a capture that is being written.
type File struct {
	*pcapng.Writer
	Path string
	Pipe bool // somebody reads it as it comes
	out  *bufio.Writer
	file io.Closer // nil: standard output
	pipe *os.File  // nil: nobody reads it as it comes, or it is no file
}

// Open begins a capture. d is the domain that is attached, nil: none is. Of a FIFO it waits for a reader until ctx ends.
func Open(ctx context.Context, k *kit.Kit, path string, d *domain.Domain, ports Ports, payload *PayloadQuery) (*File, error) {
	f := &File{Path: path}
	var to io.Writer
	switch {
	case path != Stdout:
		file, err := create(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("write the capture: %w", err)
		}
		info, err := file.Stat()
		f.Pipe, f.file, to = err == nil && !info.Mode().IsRegular(), file, file
		if f.Pipe {
			f.pipe = file
		}
	case kit.IsTerminal(k.Stdout):
		return nil, fault.Usage.Errorf("a capture is no text for a terminal: use -w FILE, or | wireshark -k -i - (text: radar packets -f)")
	default:
		f.Pipe, to = true, k.ForPrograms()
		f.pipe, _ = to.(*os.File)
	}
	f.out = bufio.NewWriterSize(to, 1<<16)
	o := pcapng.Options{Application: "radar"}
	if len(ports) > 0 {
		o.At = ports.Have
	}
	if payload != nil {
		o.PayloadAt = payload.At.Have
	}
	if d != nil {
		for _, name := range Interfaces(d.Network()) {
			if node, port, _ := strings.Cut(name, "/"); ports.Have(node, port) {
				o.Interfaces = append(o.Interfaces, name)
			}
		}
	}
	var err error
	if f.Writer, err = pcapng.New(f.out, o); err == nil && f.Pipe {
		err = f.out.Flush() // who reads it waits for the beginning
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// retry is how often it is looked whether somebody reads a FIFO.
const retry = 50 * time.Millisecond

// create opens a file for writing alone: a pipe that is also open for reading would have no end. To open a FIFO without
// a reader blocks, and nothing ends that: it is tried again and again.
func create(ctx context.Context, path string) (*os.File, error) {
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeNamedPipe {
		how |= unix.O_NONBLOCK
	}
	for {
		file, err := os.OpenFile(path, how, 0o666)
		if !errors.Is(err, unix.ENXIO) || how&unix.O_NONBLOCK == 0 {
			return file, err
		}
		if !kit.Wait(ctx, retry) {
			return nil, ctx.Err()
		}
	}
}

// unread reports whether who read the pipe has gone. Without it only a write would tell.
func (f *File) unread() (gone bool) {
	if f.pipe == nil {
		return false
	}
	raw, err := f.pipe.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(list, 0)
		gone = err == nil && n > 0 && list[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}

// Pass writes what came before a time (Unix, ns), and hands it to whoever reads it.
func (f *File) Pass(before int64) error {
	if err := f.Advance(before); err != nil || !f.Pipe {
		return err
	}
	return f.out.Flush()
}

// Close writes the rest.
func (f *File) Close() error {
	return errors.Join(f.Flush(), f.out.Flush(), f.close())
}

func (f *File) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Summary says what the capture has.
func (f *File) Summary() string {
	s := f.Stats()
	text := fmt.Sprintf("%d packets captured (%d of them lost) in %d frames at %d ports", s.Packets, s.Lost, s.Frames, s.Interfaces)
	if s.Late > 0 {
		text += fmt.Sprintf("; %d frames came late and stand behind later ones: reordercap sorts them", s.Late)
	}
	if s.NoHeader > 0 {
		text += fmt.Sprintf("; %d frames are empty, because their packets' headers were overwritten", s.NoHeader)
	}
	return text
}

// AddAt adds the flag that chooses ports.
func AddAt(k *kit.Kit, cmd *cobra.Command, at *[]string) {
	cmd.Flags().StringSliceVar(at, "at", nil, "only frames seen at this node or port (NODE, NODE/PORT)")
	_ = cmd.RegisterFlagCompletionFunc("at", k.CompleteNodes)
}
