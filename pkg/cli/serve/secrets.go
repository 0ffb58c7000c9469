// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/fault"
	machine "github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// secrets are by what server and clients know each other.
type secrets struct {
	loopback         bool // nobody but this machine can reach the server
	token, tokenPath string
	tls              *tls.Config
	fingerprint      string // of a certificate that radar made
}

func (f *options) secrets() (*secrets, error) {
	s := &secrets{loopback: api.IsLoopback(f.listen), tokenPath: f.token}
	if err := f.loadTLS(s); err != nil {
		return nil, err
	}
	if !s.loopback && s.tls == nil {
		return nil, errUnsafe
	}
	var err error
	if s.tokenPath == "" {
		s.token, s.tokenPath, err = api.OwnToken()
	} else {
		s.token, err = api.Token(s.tokenPath)
	}
	return s, err
}

func (f *options) loadTLS(s *secrets) error {
	var certificate tls.Certificate
	var err error
	switch {
	case (f.cert == "") != (f.key == ""):
		return fault.Usage.Errorf("--tls-cert and --tls-key: give both")
	case f.cert != "" && f.selfSigned:
		return fault.Usage.Errorf("--tls-cert and --self-signed: use one of them")
	case f.cert != "":
		if certificate, err = tls.LoadX509KeyPair(f.cert, f.key); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
	case f.selfSigned:
		if err := statedir.Make(statedir.Root()); err != nil {
			return err
		}
		if certificate, err = api.SelfSigned(statedir.Root(), f.certified()); err != nil {
			return err
		}
		s.fingerprint = api.Fingerprint(certificate)
	default:
		return nil
	}
	s.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	return nil
}

// certified are the names and addresses of a certificate that radar makes.
func (f *options) certified() []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return names
	}
	if a, err := netip.ParseAddr(host); host != "" && (err != nil || !a.IsUnspecified()) {
		return append(names, host)
	}
	if name := machine.Name(); name != "" {
		names = append(names, name)
	}
	addresses, _ := net.InterfaceAddrs() // without them clients see another name than they asked for
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	return names
}
