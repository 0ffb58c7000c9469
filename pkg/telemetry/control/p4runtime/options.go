// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// Reach are the options by which a switch is reached, of every driver that speaks P4Runtime.
type Reach struct {
	DeviceID   uint64 `json:"device_id"`   // its number at the server; 1
	ElectionID uint64 `json:"election_id"` // the controller with the greatest is the primary one; 1
	// Namespace is the network namespace in which the address is, as "radar attach" takes it; "": that of radar.
	Namespace string `json:"namespace"`
	TLS       *struct {
		CA   string `json:"ca"`   // file with certificates of who may sign the switch's; "": the system's
		Cert string `json:"cert"` // files of radar's own certificate and key, where the switch wants them
		Key  string `json:"key"`
		Name string `json:"server_name"` // in the switch's certificate; "": the host of the address
	} `json:"tls"`
	Pipeline Pipeline          `json:"pipeline"` // auto, keep or push; auto
	Ports    map[string]uint16 `json:"ports"`    // numbers of ports by their names
	P4Info   string            `json:"p4info"`   // files of the program to load: what it is,
	Config   string            `json:"config"`   // and what the switch gets (BMv2's JSON)
}

// FindNamespace finds the network namespace that a spec names.
type FindNamespace func(ctx context.Context, d control.Device) (node.Place, error)

// Target is where the options and the spec of a device say that it is.
func (r *Reach) Target(ctx context.Context, spec string, find FindNamespace) (to Target, err error) {
	to = Target{Address: spec, Device: r.DeviceID, Election: r.ElectionID}
	if r.TLS != nil {
		if to.TLS, err = r.tls(spec); err != nil {
			return to, err
		}
	}
	if r.Namespace != "" {
		place, err := find(ctx, control.Device{Name: r.Namespace, Spec: r.Namespace})
		if err != nil {
			return to, err
		}
		to.Dial = func(ctx context.Context, address string) (conn net.Conn, err error) {
			err = place.Do(func() (err error) {
				conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
				return err
			})
			return conn, err
		}
	}
	return to, nil
}

func (r *Reach) tls(spec string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.TLS.Name}
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(spec)
	}
	if r.TLS.CA != "" {
		pem, err := ReadFile(r.TLS.CA)
		if err != nil {
			return nil, wrong("tls.ca", "%v", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong("tls.ca", "%s has no certificate", r.TLS.CA)
		}
	}
	if r.TLS.Cert != "" || r.TLS.Key != "" {
		own, err := tls.LoadX509KeyPair(r.TLS.Cert, r.TLS.Key)
		if err != nil {
			return nil, wrong("tls.cert", "%v", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// mostFile bounds a file that a device's options name, bytes.
const mostFile = 16 << 20

// ReadFile reads a file that options name: a regular one, of a size that a program or a certificate may have.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(b) > mostFile {
		err = fmt.Errorf("%s is larger than 16 MiB", path)
	}
	return b, err
}

// Program reads the program to load; nil: no files are given.
func (r *Reach) Program() (*Program, error) {
	if r.P4Info == "" {
		return nil, nil
	}
	info, err := ReadFile(r.P4Info)
	if err != nil {
		return nil, wrong("p4info", "%v", err)
	}
	binary, err := ReadFile(r.Config)
	if err != nil {
		return nil, wrong("config", "%v", err)
	}
	p, err := NewProgram(info, binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.P4Info, err)
	}
	return p, nil
}

// Check refuses what makes no sense. Errors name the field.
func (r *Reach) Check(spec string) error {
	if _, port, err := net.SplitHostPort(spec); err != nil || port == "" {
		return &control.FieldError{Field: "spec", Text: fmt.Sprintf("%q: where does the switch serve P4Runtime? Use HOST:PORT", spec)}
	}
	if (r.P4Info == "") != (r.Config == "") {
		return wrong("p4info", "give config, too: a program has both")
	}
	switch r.Pipeline {
	case Auto, Keep, Push:
	default:
		return wrong("pipeline", "%q: use %s, %s or %s", r.Pipeline, Auto, Keep, Push)
	}
	for name, n := range r.Ports {
		if n > 511 {
			return wrong("ports."+name, "%d: v1model has ports 0 to 511", n)
		}
	}
	return nil
}

// DefaultReach are the options of a device that gives none.
func DefaultReach() Reach { return Reach{DeviceID: 1, ElectionID: 1, Pipeline: Auto} }

func wrong(field, format string, args ...any) error {
	return &control.FieldError{Field: "options." + field, Text: fmt.Sprintf(format, args...)}
}

// ReadOptions reads the options of a device into a struct. An unknown one is an error that names it.
func ReadOptions(d control.Device, into any) error {
	b, err := json.Marshal(d.Options)
	if err != nil {
		return wrong("", "%v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err = dec.Decode(into)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return wrong(strings.TrimPrefix(kind.Field, "Reach."), "a %s does not fit there", kind.Value)
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		if name, ok := strings.CutPrefix(text, "unknown field "); ok {
			return wrong(strings.Trim(name, `"`), "driver %s has no such option (docs/int/drivers.md)", d.Driver)
		}
		if f, ok := errors.AsType[*control.FieldError](err); ok {
			return f
		}
		return &control.FieldError{Field: "options", Text: text}
	}
	return nil
}

// options are those of a device with radar's program.
type options struct {
	Reach
	Collector    collector `json:"collector"`     // how reports get to the collector
	Reporting    string    `json:"report"`        // all, or changes
	Report       string    `json:"-"`             // as an action of int.reporting
	Latency      uint32    `json:"latency_ns"`    // changes: how far latencies may be from the ones reported last
	Queue        uint32    `json:"queue"`         // changes: the same of queues, packets
	Again        duration  `json:"again"`         // changes: after which time it is reported anyway
	ReportDrops  bool      `json:"report_drops"`  // drops of the switch are reported
	DropInterval duration  `json:"drop_interval"` // between two reports of one flow's drops
	CongestedAt  uint32    `json:"congested_at"`  // packets in a queue from which on it is reported; 0: never
	Foreign      string    `json:"foreign"`       // pass or drop: packets that come with INT from outside
	MTU          int       `json:"mtu"`           // of ports of which nobody says it, bytes of an IP packet
	HardwareID   uint8     `json:"hw_id"`         // in Telemetry Report 1.0
	// L2Ports are level-2 port ids, by names of ports: the program knows none by itself.
	L2Ports map[string]uint32 `json:"l2_ports"`
}

// collector is the path from a switch to the collector: P4 programs have no routes for their own reports.
type collector struct {
	none    bool
	Port    uint16     `json:"port"`
	SrcMAC  string     `json:"src_mac"`
	DstMAC  string     `json:"dst_mac"`
	Src     netip.Addr `json:"src"`
	SrcPort uint16     `json:"src_port"`
	Session uint32     `json:"session"` // clone session
}

// UnmarshalJSON reads "none", or the fields.
func (c *collector) UnmarshalJSON(b []byte) error {
	if string(b) == `"none"` {
		c.none = true
		return nil
	}
	type plain collector
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*plain)(c)); err != nil {
		return wrong("collector", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// duration is one as people write it: 500ms.
type duration struct{ time.Duration }

func (d *duration) UnmarshalJSON(b []byte) (err error) {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	d.Duration, err = time.ParseDuration(text)
	return err
}

func defaultOptions() *options {
	return &options{
		Reach: DefaultReach(), Reporting: "all", Again: duration{time.Second}, DropInterval: duration{time.Second}, Foreign: "drop", MTU: 1500,
		Collector: collector{SrcPort: 32766, Session: 500},
	}
}

// readOptions reads and checks those of a device.
func readOptions(d control.Device) (*options, error) {
	o := defaultOptions()
	if err := ReadOptions(d, o); err != nil {
		return nil, err
	}
	if err := o.Reach.Check(d.Spec); err != nil {
		return nil, err
	}
	switch {
	case o.Foreign != "pass" && o.Foreign != "drop":
		return nil, wrong("foreign", "%q: use pass or drop", o.Foreign)
	case o.MTU < 68 || o.MTU > 65535:
		return nil, wrong("mtu", "%d: use 68 to 65535", o.MTU)
	case o.CongestedAt >= 1<<24:
		return nil, wrong("congested_at", "%d: use less than %d", o.CongestedAt, 1<<24)
	case o.HardwareID > 63:
		return nil, wrong("hw_id", "%d: use 0 to 63", o.HardwareID)
	}
	switch o.Reporting {
	case "all":
		o.Report = "int.report_all"
	case "changes":
		o.Report = fmt.Sprintf("int.report_changes %d %d %d", o.Latency, o.Queue, o.Again.Microseconds())
	default:
		return nil, wrong("report", "%q: use all or changes", o.Reporting)
	}
	return o, o.Collector.check()
}

func (c *collector) check() error {
	if c.none {
		return nil
	}
	mac := func(text string) bool {
		m, err := net.ParseMAC(text)
		return err == nil && len(m) == 6
	}
	switch {
	case c.SrcMAC == "" && c.DstMAC == "" && c.Port == 0:
		return wrong("collector", "how do reports get to the collector? Give port, src_mac, dst_mac and src, or none for a switch that sends none")
	case c.Port > 511:
		return wrong("collector.port", "%d: v1model has ports 0 to 511", c.Port)
	case !mac(c.SrcMAC):
		return wrong("collector.src_mac", "%q is no MAC address", c.SrcMAC)
	case !mac(c.DstMAC):
		return wrong("collector.dst_mac", "%q is no MAC address", c.DstMAC)
	case !c.Src.Is4():
		return wrong("collector.src", "reports need a source address of IPv4")
	case c.Session == 0 || c.Session > 32767:
		return wrong("collector.session", "%d: use 1 to 32767", c.Session)
	}
	return nil
}
