// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/vnetradar/radar/pkg/host"
)

// enter makes a command run in the browser's namespace. It ends with the test's process.
func (p *page) enter(cmd *exec.Cmd) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		p.Fatal(err)
	}
	cmd.Args = append([]string{nsenter, "--net=" + p.net.Path("browser"), "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = nsenter
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// relay gives the browser's namespace the server, at the address that it has outside.
func (p *page) relay() {
	p.Helper()
	address := strings.TrimPrefix(p.base, "http://")
	ns, _, err := host.OpenNetns(p.net.Path("browser"))
	if err != nil {
		p.Fatal(err)
	}
	defer ns.Close()
	var listener net.Listener
	err = host.InNetns(ns, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { listener.Close() })
	go func() {
		for {
			inside, err := listener.Accept()
			if err != nil {
				return
			}
			outside, err := net.Dial("tcp", address)
			if err != nil {
				inside.Close()
				continue
			}
			join(inside, outside)
		}
	}()
}

// join copies both ways until either end closes.
func join(a, b net.Conn) {
	var once sync.Once
	end := func() { a.Close(); b.Close() }
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			once.Do(end)
		}()
	}
}
