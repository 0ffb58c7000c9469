// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

var (
	linkRE   = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	optionRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	sysctlRE = regexp.MustCompile(`^net(\.[A-Za-z0-9_-]+)+$`)
	envRE    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// containerOptions shape the container around the network: nothing to do here.
var containerOptions = map[string]bool{
	"image": true, "shell": true, "num_terms": true, "mem": true, "cpus": true,
	"privileged": true, "entrypoint": true, "args": true, "ulimit": true,
}

// missingOptions change what a lab can reach, so that leaving them out is said.
var missingOptions = map[string]string{
	"bridged": "the machine gets no interface toward this host",
	"port":    "no port of this host is forwarded",
	"volume":  "the machine shares this host's file system",
}

// parsePort reads the value of NAME[NUMBER]: LINK or LINK/MAC.
func (p *confParser) parsePort(m *Machine, arg, value string) error {
	n, err := strconv.Atoi(arg)
	if err != nil || strconv.Itoa(n) != arg {
		return fmt.Errorf("%s[%s]: the interface number is no plain number", m.Name, arg)
	}
	link, mac, hasMAC := strings.Cut(value, "/")
	if !linkRE.MatchString(link) {
		return fmt.Errorf("%s[%d]: link name %q: use letters, digits and '_'", m.Name, n, link)
	}
	pt := port{Interface: Interface{Link: link}, line: p.line}
	if hasMAC {
		if pt.MAC, err = parseMAC(mac); err != nil {
			return fmt.Errorf("%s[%d]: %w", m.Name, n, err)
		}
	}
	for k, other := range p.ports[m.Name] {
		if k == n {
			return fmt.Errorf("%s[%d] was given before, in line %d", m.Name, n, other.line)
		}
		if other.Link == link {
			return fmt.Errorf("%s[%d]: %s is on link %q already, with %s (line %d)", m.Name, n, m.Name, link, ifname(k), other.line)
		}
	}
	p.ports[m.Name][n] = pt
	p.join(link, Member{Machine: m.Name, Interface: ifname(n)})
	return nil
}

// join adds a member to a link, new if need be.
func (p *confParser) join(link string, m Member) {
	i, ok := p.links[link]
	if !ok {
		i = len(p.topo.Links)
		p.links[link] = i
		p.topo.Links = append(p.topo.Links, Link{Name: link})
	}
	p.topo.Links[i].Members = append(p.topo.Links[i].Members, m)
}

func parseMAC(s string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || !strings.Contains(s, ":") {
		return nil, fmt.Errorf("%q is no MAC address: write it as 02:00:00:00:00:01", s)
	}
	if mac[0]&1 != 0 {
		return nil, fmt.Errorf("%q is a multicast address: an interface needs a unicast one", s)
	}
	if mac.String() == "00:00:00:00:00:00" {
		return nil, errors.New("an interface cannot have the MAC address 00:00:00:00:00:00")
	}
	return mac, nil
}

// parseOption reads NAME[OPTION].
func (p *confParser) parseOption(m *Machine, option, value string) error {
	if !optionRE.MatchString(option) {
		return fmt.Errorf("%s[%s]: neither an interface number nor the name of an option", m.Name, option)
	}
	switch option {
	case "ipv6":
		on, err := parseBool(value)
		if err != nil {
			return fmt.Errorf("%s[ipv6]: %w", m.Name, err)
		}
		p.once(m.Name, option)
		m.IPv6 = on
	case "sysctl":
		key, val, _ := strings.Cut(value, "=")
		if !sysctlRE.MatchString(key) || strings.TrimSpace(val) == "" {
			return fmt.Errorf("%s[sysctl]: %q: expected net.NAME=VALUE", m.Name, value)
		}
		m.Sysctls = append(m.Sysctls, Setting{Key: key, Value: strings.TrimSpace(val)})
	case "env":
		key, val, ok := strings.Cut(value, "=")
		if !ok || !envRE.MatchString(key) {
			return fmt.Errorf("%s[env]: %q: expected NAME=VALUE", m.Name, value)
		}
		m.Env = append(m.Env, Setting{Key: key, Value: val})
	case "exec":
		m.Scripts = append(m.Scripts, Script{Name: fmt.Sprintf("%s:%d", confFile, p.line), Body: value + "\n"})
	default:
		p.skipOption(m.Name, option)
	}
	return nil
}

// once warns if the option was given before; the last one counts.
func (p *confParser) once(machine, option string) {
	key := machine + "[" + option + "]"
	if line, ok := p.seen[key]; ok {
		p.warnf("%s replaces the one in line %d", key, line)
	}
	p.seen[key] = p.line
}

func (p *confParser) skipOption(machine, option string) {
	if containerOptions[option] {
		return
	}
	if what, ok := missingOptions[option]; ok {
		p.warnf("%s[%s] is ignored: %s", machine, option, what)
		return
	}
	p.warnf("unknown option %s[%s] is ignored", machine, option)
}

// parseBool takes the words that Kathará takes.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "y", "yes", "t", "true", "on", "1":
		return true, nil
	case "n", "no", "f", "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}
