// SPDX-License-Identifier: Apache-2.0

// Command plugin is a Docker network plugin for Kathará labs: each network is a
// Linux bridge, each endpoint a veth. It runs as a managed plugin (see
// config.json and ../setup.sh), in the host's network namespace, and serves
// Docker's remote network driver API on a socket that the engine knows.
//
// Its networks carry frames and nothing else: no addresses, no way to the host.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/docker/go-plugins-helpers/network"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// socket is where the engine looks for the plugin: interface.socket of config.json.
const socket = "/run/docker/plugins/bridge.sock"

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "network plugin: %v\n", err)
		os.Exit(1)
	}
}

// run serves until the engine ends the process.
func run() error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer handle.Close()
	// A socket that the last run left.
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return network.NewHandler(&driver{nl: handle}).Serve(l)
}
