// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
)

// The protocols, and what OpenTelemetry calls the second one.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http"
	httpProtobuf = "http/protobuf"
)

// otel reads a variable of OpenTelemetry's exporters: that of traces, else that of everything.
func otel(k *kit.Kit, name string) (value, variable string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if v, _ := k.LookupEnv(prefix + name); v != "" {
			return v, prefix + name
		}
	}
	return "", ""
}

// refusedVariable is a value that cannot be used.
func refusedVariable(variable, value, use string) error {
	return fault.Usage.Errorf("environment variable %s=%q: %s", variable, value, use)
}

// collector finds out where traces go, and how.
func (f *otlpOptions) collector(k *kit.Kit, cmd *cobra.Command, version string) (*collector, error) {
	c := &collector{protocol: f.protocol.Value}
	c.Agent, c.Timeout, c.Gzip = "radar/"+version, f.timeout, true
	if v, variable := otel(k, "PROTOCOL"); v != "" && !cmd.Flags().Changed("protocol") {
		switch v {
		case protocolGRPC:
			c.protocol = protocolGRPC
		case httpProtobuf:
			c.protocol = protocolHTTP
		default:
			return nil, refusedVariable(variable, v, "use grpc or http/protobuf")
		}
	}
	if v, variable := otel(k, "TIMEOUT"); v != "" && !cmd.Flags().Changed("timeout") {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil || ms == 0 {
			return nil, refusedVariable(variable, v, "use milliseconds")
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}
	if c.Timeout <= 0 {
		return nil, fault.Usage.Errorf("--timeout %v: use more than 0", c.Timeout)
	}
	switch v, variable := otel(k, "COMPRESSION"); v {
	case "", "gzip":
	case "none":
		c.Gzip = false
	default:
		return nil, refusedVariable(variable, v, "use gzip or none")
	}
	secure, err := f.resolve(k, c)
	if err == nil {
		err = f.readHeaders(k, c)
	}
	switch {
	case err != nil:
	case secure:
		c.TLS, err = f.readTLS(k)
	case f.ca != "" || f.cert != "" || f.key != "":
		err = fault.Usage.Errorf("--tls-ca, --tls-cert and --tls-key: %s is without TLS: use https", c.shown)
	}
	return c, err
}

// resolve reads the endpoint, and says whether TLS is spoken there.
func (f *otlpOptions) resolve(k *kit.Kit, c *collector) (secure bool, err error) {
	text, what, base := f.endpoint, "--endpoint", true
	if text == "" {
		if v, variable := otel(k, "ENDPOINT"); v != "" {
			text, what = v, variable
			base = variable == "OTEL_EXPORTER_OTLP_ENDPOINT" // that of traces is used as it is
		}
	}
	port := "4317"
	if c.protocol == protocolHTTP {
		port = "4318"
	}
	given := text != ""
	if !given {
		text = "http://localhost:" + port
	}
	if !strings.Contains(text, "://") {
		plain := f.insecure
		if v, _ := otel(k, "INSECURE"); strings.EqualFold(v, "true") {
			plain = true
		}
		scheme := map[bool]string{true: "http://", false: "https://"}[plain]
		text = scheme + text
	} else if f.insecure && strings.HasPrefix(text, "https://") {
		return false, fault.Usage.Errorf("--insecure with an endpoint of https: use http, or leave it out")
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fault.Usage.Errorf("%s %q: use http://HOST:PORT, https://HOST:PORT or HOST:PORT", what, text)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return false, fault.Usage.Errorf("%s %q: the port is 1 to 65535", what, text)
		}
		port = p
	} else if c.protocol == protocolHTTP && given { // a URL without a port has its scheme's
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	c.address = net.JoinHostPort(u.Hostname(), port)
	c.Target = c.address
	c.shown = u.Scheme + "://" + c.address
	if c.protocol == protocolHTTP {
		u.Host = c.address
		if path := strings.TrimSuffix(u.Path, "/"); base && !strings.HasSuffix(path, "/v1/traces") {
			u.Path = path + "/v1/traces"
		}
		u.User = nil
		c.Target = u.String()
		c.shown = c.Target
	}
	return u.Scheme == "https", nil
}

// readHeaders reads those of flags and variables.
func (f *otlpOptions) readHeaders(k *kit.Kit, c *collector) error {
	c.Headers = make(map[string]string)
	add := func(name, value, use string) error {
		name = strings.ToLower(strings.TrimSpace(name))
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || strings.HasPrefix(name, "grpc-") {
			return fault.Usage.Errorf("%s: %q is no header: use NAME=VALUE", use, name)
		}
		c.Headers[name] = value
		return nil
	}
	if text, variable := otel(k, "HEADERS"); text != "" {
		for pair := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value)) // as in W3C Baggage
			if !ok || err != nil {
				return fault.Usage.Errorf("environment variable %s: use NAME=VALUE, with commas between", variable)
			}
			if err := add(name, value, "environment variable "+variable); err != nil {
				return err
			}
		}
	}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fault.Usage.Errorf("--header: use NAME=VALUE")
		}
		if err := add(name, value, "--header"); err != nil {
			return err
		}
	}
	return nil
}

// readTLS reads the files that TLS needs.
func (f *otlpOptions) readTLS(k *kit.Kit) (*tls.Config, error) {
	file := func(flag, variable string) string {
		if flag == "" {
			flag, _ = otel(k, variable)
		}
		return flag
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := file(f.ca, "CERTIFICATE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fault.Usage.Errorf("--tls-ca %s: no certificate is in it", path)
		}
	}
	cert, key := file(f.cert, "CLIENT_CERTIFICATE"), file(f.key, "CLIENT_KEY")
	switch {
	case cert == "" && key == "":
		return c, nil
	case cert == "" || key == "":
		return nil, fault.Usage.Errorf("--tls-cert and --tls-key: give both")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// findListener returns the addresses of HOST:PORT, of which one must listen; else the error says what to do.
func findListener(ctx context.Context, address, shown, hint string) (list []netip.AddrPort, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("collector %s: %w", shown, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	for _, addr := range found {
		list = append(list, netip.AddrPortFrom(addr.Unmap(), uint16(number)))
	}
	d := net.Dialer{Timeout: connectWithin}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, fmt.Errorf("no collector at %s: %w: %s", shown, err, hint)
	}
	conn.Close()
	return list, nil
}
