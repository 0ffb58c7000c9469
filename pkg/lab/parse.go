// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names of the files in a lab folder.
const (
	confFile     = "lab.conf"
	scriptSuffix = ".startup"
	sharedScript = "shared.startup"
)

// maxErrors bounds how many wrong lines one Parse reports.
const maxErrors = 10

// ParseError says what is wrong in a line of a file of a lab folder.
type ParseError struct {
	File string
	Line int // from 1
	Msg  string
}

func (e *ParseError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Parse reads a lab folder in Kathará's format: lab.conf, MACHINE.startup and
// shared.startup. Wrong lines are reported together, each as a *ParseError;
// what is understood but has no meaning here goes to Topology.Warnings.
func Parse(fsys fs.FS) (*Topology, error) {
	f, err := readFolder(fsys)
	if err != nil {
		return nil, err
	}
	return parseFolder(f)
}

func parseFolder(f *folder) (*Topology, error) {
	text, ok := f.files[confFile]
	if !ok {
		return nil, errNoConf
	}
	t, err := parseConf(text)
	if err != nil {
		return nil, err
	}
	t.addScripts(f)
	if text, ok := f.files[needsFile]; ok {
		if t.Needs, err = parseNeeds(text); err != nil {
			return nil, fmt.Errorf("%s: %w", needsFile, err)
		}
	}
	return t, nil
}

// confParser holds what is needed while lab.conf is read.
type confParser struct {
	topo  *Topology
	links map[string]int // collision domain -> index in topo.Links
	ports map[string]map[int]port
	seen  map[string]int // option that may be given once -> its line
	line  int
	errs  []error
}

// port is one line NAME[N]=... until the numbers have been checked.
type port struct {
	Interface
	line int
}

func parseConf(text string) (*Topology, error) {
	p := &confParser{
		topo:  &Topology{},
		links: make(map[string]int),
		ports: make(map[string]map[int]port),
		seen:  make(map[string]int),
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.line++
		if err := p.parseLine(line); err != nil {
			p.fail(p.line, err)
		}
		if len(p.errs) >= maxErrors {
			break
		}
	}
	p.checkNumbers()
	if len(p.errs) == 0 && len(p.topo.Machines) == 0 {
		p.errs = append(p.errs, errors.New("lab.conf: no machine: add lines such as r1[0]=\"A\""))
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	for i := range p.topo.Links {
		p.topo.Links[i].Kind = kindFor(len(p.topo.Links[i].Members))
	}
	return p.topo, nil
}

func (p *confParser) fail(line int, err error) {
	p.errs = append(p.errs, &ParseError{File: confFile, Line: line, Msg: err.Error()})
}

func (p *confParser) warnf(format string, args ...any) {
	p.topo.Warnings = append(p.topo.Warnings, fmt.Sprintf("%s:%d: ", confFile, p.line)+fmt.Sprintf(format, args...))
}

func (p *confParser) parseLine(line string) error {
	if !utf8.ValidString(line) {
		return errors.New("the line is not UTF-8")
	}
	for _, r := range line {
		if unicode.IsControl(r) && r != '\t' {
			return fmt.Errorf("unexpected character %U", r)
		}
	}
	line = strings.TrimSpace(line)
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return nil
	case strings.HasPrefix(line, "LAB_"):
		return p.parseMeta(line)
	}
	return p.parseMachine(line)
}

// parseMeta reads LAB_NAME="..." and its like.
func (p *confParser) parseMeta(line string) error {
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%q: expected LAB_NAME=\"...\"", line)
	}
	value = unquote(strings.TrimSpace(value))
	switch key {
	case "LAB_NAME":
		p.topo.Name = cleanName(value)
	case "LAB_DESCRIPTION":
		p.topo.Description = value
	case "LAB_VERSION", "LAB_AUTHOR", "LAB_EMAIL", "LAB_WEB":
	default:
		return fmt.Errorf("unknown key %q: use LAB_NAME, LAB_DESCRIPTION, LAB_VERSION, LAB_AUTHOR, LAB_EMAIL or LAB_WEB", key)
	}
	return nil
}

// unquote removes one pair of quotes around s.
func unquote(s string) string {
	for _, q := range []string{`"`, `'`} {
		if len(s) >= 2 && strings.HasPrefix(s, q) && strings.HasSuffix(s, q) {
			return s[1 : len(s)-1]
		}
	}
	return s
}

var machineRE = regexp.MustCompile(`^[a-z0-9_]{1,30}$`)

// reserved are names that Kathará keeps for itself.
var reserved = []string{"shared", "_test"}

// parseMachine reads NAME[ARG]=VALUE.
func (p *confParser) parseMachine(line string) error {
	name, rest, ok := strings.Cut(line, "[")
	if !ok {
		return fmt.Errorf("%q: expected MACHINE[NUMBER]=\"LINK\" or MACHINE[OPTION]=\"VALUE\"", line)
	}
	if !machineRE.MatchString(name) {
		return fmt.Errorf("machine name %q: use 1 to 30 of a-z, 0-9 and '_'", name)
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("machine name %q is reserved", name)
	}
	arg, rest, ok := strings.Cut(rest, "]")
	if !ok {
		return fmt.Errorf("missing ']' after %s[", name)
	}
	rest, ok = strings.CutPrefix(rest, "=")
	if !ok {
		return fmt.Errorf("expected '=' right after %s[%s]", name, arg)
	}
	value, err := parseValue(rest)
	if err != nil {
		return fmt.Errorf("%s[%s]: %w", name, arg, err)
	}
	m := p.machine(name)
	if arg != "" && arg[0] >= '0' && arg[0] <= '9' {
		return p.parsePort(m, arg, value)
	}
	return p.parseOption(m, arg, value)
}

// machine returns the machine with that name, new if need be.
func (p *confParser) machine(name string) *Machine {
	if m := p.topo.Machine(name); m != nil {
		return m
	}
	p.topo.Machines = append(p.topo.Machines, Machine{Name: name})
	p.ports[name] = make(map[int]port)
	return &p.topo.Machines[len(p.topo.Machines)-1]
}

// parseValue reads a quoted or plain value, and a comment after it.
func parseValue(s string) (string, error) {
	value, rest := s, ""
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 {
			return "", fmt.Errorf("missing closing %c", s[0])
		}
		value, rest = s[1:end+1], s[end+2:]
	} else if i := strings.IndexAny(s, "#"); i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		value, rest = strings.TrimSpace(s[:i]), " "+s[i:]
	}
	if trimmed := strings.TrimSpace(rest); rest != "" && (trimmed == rest || trimmed[0] != '#') {
		return "", fmt.Errorf("unexpected %q after the value", trimmed)
	}
	if strings.ContainsAny(value, `"'`) {
		return "", errors.New("a value cannot contain quotes")
	}
	if strings.TrimSpace(value) == "" {
		return "", errors.New("the value is empty")
	}
	return value, nil
}

// cleanName turns what people write as a title into a name that CheckName takes,
// as far as it can be.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.-", r)) {
			return r
		}
		return '_'
	}, strings.TrimSpace(s))
	s = strings.TrimLeft(s, "_.-")
	return s[:min(len(s), maxName)]
}

// checkNumbers turns the ports of every machine into its list of interfaces.
func (p *confParser) checkNumbers() {
	for i := range p.topo.Machines {
		m := &p.topo.Machines[i]
		ports := p.ports[m.Name]
		for n := range len(ports) {
			if _, ok := ports[n]; !ok {
				p.failGap(m.Name, ports, n)
				break
			}
			m.Interfaces = append(m.Interfaces, ports[n].Interface)
		}
	}
}

// failGap names the line of the first interface behind the gap at n.
func (p *confParser) failGap(machine string, ports map[int]port, n int) {
	var numbers []int
	for k := range ports {
		if k > n {
			numbers = append(numbers, k)
		}
	}
	next := slices.Min(numbers)
	p.fail(ports[next].line, fmt.Errorf("%s has %s but no %s: number the interfaces from 0 without gaps",
		machine, ifname(next), ifname(n)))
}

// addScripts gives every machine its scripts, in the order Kathará runs them,
// and warns of what the folder has beyond that.
func (t *Topology) addScripts(f *folder) {
	for i := range t.Machines {
		m := &t.Machines[i]
		var scripts []Script
		for _, name := range []string{sharedScript, m.Name + scriptSuffix} {
			if body, ok := f.files[name]; ok {
				scripts = append(scripts, Script{Name: name, Body: body})
			}
		}
		m.Scripts = append(scripts, m.Scripts...)
		if slices.Contains(f.dirs, m.Name) {
			t.Warnings = append(t.Warnings, m.Name+"/: files are not copied into the machine: it shares this host's file system")
		}
		if f.has(m.Name + ".shutdown") {
			t.Warnings = append(t.Warnings, m.Name+".shutdown: is not run")
		}
	}
	for _, name := range []string{"lab.dep", "lab.ext", "shared.shutdown"} {
		if f.has(name) {
			t.Warnings = append(t.Warnings, name+": is ignored")
		}
	}
	t.Shared = f.shared
	if len(f.shared) > 0 && !t.mentions(sharedVariable) {
		t.Warnings = append(t.Warnings, "shared/: is not mounted as /shared: scripts find its files in $"+sharedVariable)
	}
	t.warnOrphans(f)
}

// mentions reports whether a script of the lab has this word.
func (t *Topology) mentions(word string) bool {
	return slices.ContainsFunc(t.Machines, func(m Machine) bool {
		return slices.ContainsFunc(m.Scripts, func(s Script) bool { return strings.Contains(s.Body, word) })
	})
}

// warnOrphans finds scripts of machines that lab.conf does not name: misspelt.
func (t *Topology) warnOrphans(f *folder) {
	var orphans []string
	for name := range f.files {
		machine, ok := strings.CutSuffix(name, scriptSuffix)
		if ok && name != sharedScript && t.Machine(machine) == nil {
			orphans = append(orphans, fmt.Sprintf("%s: lab.conf has no machine %s", name, strconv.Quote(machine)))
		}
	}
	slices.Sort(orphans)
	t.Warnings = append(t.Warnings, orphans...)
}
