// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/go-plugins-helpers/network"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/nstest"
)

const hostNS = "host"

// engine talks to a plugin as the Docker engine does: JSON over a unix socket.
// The plugin works in the namespace "host" of a net of its own.
type engine struct {
	t    *testing.T
	net  *nstest.Net
	host *netlink.Handle
	http *http.Client
	stop func()
}

func newEngine(t *testing.T, containers ...string) *engine {
	e := &engine{t: t, net: nstest.New(t, append(containers, hostNS)...)}
	e.host = e.net.Handle(hostNS)
	e.start()
	return e
}

// start serves the plugin on a new socket, as after a restart: nothing is left of
// the one before but the interfaces.
func (e *engine) start() {
	e.t.Helper()
	path := filepath.Join(e.t.TempDir(), "plugin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		e.t.Fatal(err)
	}
	h := network.NewHandler(&driver{nl: e.net.Handle(hostNS)})
	go func() { _ = h.Serve(l) }() // ends with the listener
	e.http = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	e.stop = func() { l.Close() }
	e.t.Cleanup(e.stop)
}

// call returns what the plugin says is wrong, "" for nothing, and fills reply in.
func (e *engine) call(method string, request, reply any) string {
	e.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		e.t.Fatal(err)
	}
	res, err := e.http.Post("http://plugin/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	var both struct{ Err string }
	var raw json.RawMessage
	if err := json.NewDecoder(res.Body).Decode(&raw); err != nil {
		e.t.Fatalf("%s: read the answer: %v", method, err)
	}
	if err := json.Unmarshal(raw, &both); err != nil {
		e.t.Fatalf("%s: read the answer: %v", method, err)
	}
	if reply != nil && both.Err == "" {
		if err := json.Unmarshal(raw, reply); err != nil {
			e.t.Fatalf("%s: read the answer: %v", method, err)
		}
	}
	return both.Err
}

// must is call for what has to work.
func (e *engine) must(method string, request, reply any) {
	e.t.Helper()
	if failed := e.call(method, request, reply); failed != "" {
		e.t.Fatalf("%s: %s", method, failed)
	}
}

func (e *engine) createNetwork(id string) {
	e.t.Helper()
	e.must("NetworkDriver.CreateNetwork", network.CreateNetworkRequest{NetworkID: id}, nil)
}

// connect gives a container an endpoint with an interface called name, as the
// engine does: create, join, move, rename.
func (e *engine) connect(netID, id, container, name string, options map[string]any) network.EndpointInterface {
	e.t.Helper()
	var made network.CreateEndpointResponse
	e.must("NetworkDriver.CreateEndpoint", network.CreateEndpointRequest{
		NetworkID: netID, EndpointID: id, Interface: &network.EndpointInterface{}, Options: options}, &made)
	var joined network.JoinResponse
	e.must("NetworkDriver.Join", network.JoinRequest{NetworkID: netID, EndpointID: id}, &joined)
	want := network.JoinResponse{
		InterfaceName:         network.InterfaceName{SrcName: "kc-" + id[:12], DstPrefix: "eth"},
		DisableGatewayService: true,
	}
	if diff := cmp.Diff(want, joined); diff != "" {
		e.t.Errorf("Join (-want +got):\n%s", diff)
	}
	e.move(joined.InterfaceName.SrcName, container, name)
	return *made.Interface
}

func (e *engine) move(link, container, name string) {
	e.t.Helper()
	l, err := e.host.LinkByName(link)
	if err != nil {
		e.t.Fatalf("interface to move: %v", err)
	}
	ns, err := netns.GetFromPath(e.net.Path(container))
	if err != nil {
		e.t.Fatal(err)
	}
	defer ns.Close()
	if err := e.host.LinkSetNsFd(l, int(ns)); err != nil {
		e.t.Fatalf("move %s to %s: %v", link, container, err)
	}
	inside := e.net.Handle(container)
	if l, err = inside.LinkByName(link); err == nil {
		err = inside.LinkSetName(l, name)
	}
	if err != nil {
		e.t.Fatalf("rename %s in %s: %v", link, container, err)
	}
	e.net.Up(container, name)
}

// links are the names of the interfaces in the plugin's namespace, less lo.
func (e *engine) links() []string {
	e.t.Helper()
	list, err := e.host.LinkList()
	if err != nil {
		e.t.Fatal(err)
	}
	var names []string
	for _, l := range list {
		if l.Attrs().Name != "lo" {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}

// newID is an id as the engine makes them.
func newID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func TestActivate(t *testing.T) {
	e := newEngine(t)
	var manifest struct{ Implements []string }
	e.must("Plugin.Activate", struct{}{}, &manifest)
	if diff := cmp.Diff([]string{"NetworkDriver"}, manifest.Implements); diff != "" {
		t.Errorf("Plugin.Activate (-want +got):\n%s", diff)
	}
	var caps network.CapabilitiesResponse
	e.must("NetworkDriver.GetCapabilities", struct{}{}, &caps)
	if caps.Scope != "local" {
		t.Errorf("scope is %q", caps.Scope)
	}
}

// Three containers on one network and one on another: frames go where they
// should, the host says nothing, and everything is gone in the end.
func TestNetwork(t *testing.T) {
	e := newEngine(t, "a", "b", "c", "other")
	one, two := newID(), newID()
	e.createNetwork(one)
	e.createNetwork(two)
	ids := map[string]string{"a": newID(), "b": newID(), "c": newID(), "other": newID()}
	for i, name := range []string{"a", "b", "c", "other"} {
		id := one
		if name == "other" {
			id = two
		}
		e.connect(id, ids[name], name, "eth0", nil)
		e.net.Address(name, "eth0", "10.77.0."+string(rune('1'+i))+"/24")
	}
	e.net.Run("a", "ping", "-c1", "-W10", "10.77.0.2")
	e.net.Run("a", "ping", "-c1", "-W10", "10.77.0.3")
	if out, err := e.net.Try("a", "ping", "-c1", "-W1", "10.77.0.4"); err == nil {
		t.Errorf("a reached a container of another network:\n%s", out)
	}

	for _, id := range ids {
		e.must("NetworkDriver.Leave", network.LeaveRequest{EndpointID: id}, nil)
		e.must("NetworkDriver.DeleteEndpoint", network.DeleteEndpointRequest{EndpointID: id}, nil)
	}
	if diff := cmp.Diff([]string{"kt-" + one[:12], "kt-" + two[:12]}, e.links()); diff != "" {
		t.Errorf("after the endpoints went (-want +got):\n%s", diff)
	}
	for _, id := range []string{one, two} {
		e.must("NetworkDriver.DeleteNetwork", network.DeleteNetworkRequest{NetworkID: id}, nil)
	}
	if left := e.links(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The host owns addresses; a container that asks for one on its link must not
// hear of them, nor anything in IPv6.
func TestHostIsSilent(t *testing.T) {
	e := newEngine(t, "a")
	id, end := newID(), newID()
	e.createNetwork(id)
	e.connect(id, end, "a", "eth0", nil)
	e.net.Address(hostNS, "lo", "192.0.2.1/32")
	e.net.Address("a", "eth0", "192.0.2.2/24")
	// The host has no way back to 192.0.2.2, so only its ARP would be heard.
	_, _ = e.net.Try("a", "ping", "-c1", "-W1", "192.0.2.1")
	if out := e.net.Run("a", "ip", "neighbour", "show", "192.0.2.1"); strings.Contains(out, "lladdr") {
		t.Errorf("the host answers on a lab's link: %s", out)
	}
	for _, link := range []string{"kt-" + id[:12], "kh-" + end[:12]} {
		if out := e.net.Run(hostNS, "ip", "-6", "-o", "address", "show", "dev", link); out != "" {
			t.Errorf("%s has an IPv6 address: %s", link, out)
		}
	}
}

func TestMAC(t *testing.T) {
	e := newEngine(t, "a", "b")
	id := newID()
	e.createNetwork(id)

	const wanted = "02:00:00:00:00:42"
	got := e.connect(id, newID(), "a", "eth0", map[string]any{macOption: wanted})
	if got.MacAddress != wanted {
		t.Errorf("the engine is told %q", got.MacAddress)
	}
	if out := e.net.Run("a", "ip", "-o", "link", "show", "eth0"); !strings.Contains(out, wanted) {
		t.Errorf("eth0 has another address: %s", out)
	}

	got = e.connect(id, newID(), "b", "eth0", nil)
	if out := e.net.Run("b", "ip", "-o", "link", "show", "eth0"); got.MacAddress == "" || !strings.Contains(out, got.MacAddress) {
		t.Errorf("the engine is told %q, eth0 is: %s", got.MacAddress, out)
	}

	// What the engine itself asks for it must not be told again.
	var made network.CreateEndpointResponse
	end := newID()
	e.must("NetworkDriver.CreateEndpoint", network.CreateEndpointRequest{NetworkID: id, EndpointID: end,
		Interface: &network.EndpointInterface{MacAddress: wanted}}, &made)
	if made.Interface.MacAddress != "" {
		t.Errorf("the engine is told its own address %q", made.Interface.MacAddress)
	}
	if out := e.net.Run(hostNS, "ip", "-o", "link", "show", "kc-"+end[:12]); !strings.Contains(out, wanted) {
		t.Errorf("address is not the engine's: %s", out)
	}
}

// A plugin that was restarted knows the networks and endpoints of the one before.
func TestRestart(t *testing.T) {
	e := newEngine(t, "a", "b")
	id, first, second := newID(), newID(), newID()
	e.createNetwork(id)
	e.connect(id, first, "a", "eth0", nil)
	e.net.Address("a", "eth0", "10.77.0.1/24")
	e.stop()
	e.start()
	e.connect(id, second, "b", "eth0", nil)
	e.net.Address("b", "eth0", "10.77.0.2/24")
	e.net.Run("a", "ping", "-c1", "-W10", "10.77.0.2")

	// The engine lost its notes and makes the network again.
	e.createNetwork(id)
	e.net.Run("a", "ping", "-c1", "-W10", "10.77.0.2")

	// It removes the network without the endpoints, and then them too.
	for range 2 {
		e.must("NetworkDriver.DeleteNetwork", network.DeleteNetworkRequest{NetworkID: id}, nil)
		e.must("NetworkDriver.DeleteEndpoint", network.DeleteEndpointRequest{NetworkID: id, EndpointID: first}, nil)
	}
	if left := e.links(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What fails leaves nothing behind and says what is wrong.
func TestErrors(t *testing.T) {
	e := newEngine(t, "a")
	id, end := newID(), newID()
	endpoint := network.CreateEndpointRequest{NetworkID: id, EndpointID: end, Interface: &network.EndpointInterface{}}
	for _, test := range []struct{ name, got, want string }{
		{"no network", e.call("NetworkDriver.CreateEndpoint", endpoint, nil), "find bridge kt-" + id[:12] + " of the network"},
		{"no endpoint", e.call("NetworkDriver.Join", network.JoinRequest{NetworkID: id, EndpointID: end}, nil), "find kc-" + end[:12]},
		{"short id", e.call("NetworkDriver.CreateNetwork", network.CreateNetworkRequest{NetworkID: "x/y"}, nil), "shorter than 12"},
	} {
		if !strings.Contains(test.got, test.want) {
			t.Errorf("%s: answer is %q, want %q in it", test.name, test.got, test.want)
		}
	}
	e.createNetwork(id)
	for _, mac := range []string{"nonsense", "01:00:5e:00:00:01", "02:00:00:00:00:00:00:01"} {
		endpoint.Options = map[string]any{macOption: mac}
		if got := e.call("NetworkDriver.CreateEndpoint", endpoint, nil); !strings.Contains(got, "read MAC address") {
			t.Errorf("MAC address %s: answer is %q", mac, got)
		}
	}
	if diff := cmp.Diff([]string{"kt-" + id[:12]}, e.links()); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}
