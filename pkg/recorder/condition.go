// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Forms are the conditions, as users write them.
var Forms = []string{
	"loss > N in TIME",
	"loss.NODE > N in TIME",
	"loss.NODE/PORT > N in TIME",
	"p99 link NODE-NODE > TIME in TIME",
	"p99 NODE/PORT-NODE/PORT > TIME in TIME",
	"queue NODE/PORT > TIME",
	"path change",
	"assert FILE in TIME",
}

// kind is what a condition asks for.
type kind int

const (
	losses kind = iota
	quantile
	queue
	pathChange
	promises
)

// Bounds of what a condition may say.
const (
	mostLosses = 1 << 20
	mostTime   = time.Hour
)

// Condition is one that a flight recorder waits for.
type Condition struct {
	Text string // as it was written

	kind     kind
	quantile float64       // 0.5, 0.9, 0.99
	at       end           // of losses and queues; all empty: anywhere
	from, to end           // of latencies: the link's ends
	count    int           // more losses than these
	limit    time.Duration // more time than that
	within   time.Duration
	promises []promise
}

// end is a port, or a node if Port is "".
type end struct{ Node, Port string }

func (e end) String() string {
	if e.Port == "" {
		return e.Node
	}
	return e.Node + "/" + e.Port
}

// quantiles are those that a condition can name.
var quantiles = map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99}

// ParseCondition reads a condition. It must be about nodes and ports of the domain. The error says what is wrong, and
// what there could be. A file that it names is read here, once.
func ParseCondition(text string, d *domain.Domain) (*Condition, error) {
	c := &Condition{Text: strings.Join(strings.Fields(text), " ")}
	p := &parser{rest: strings.Fields(text), of: d}
	if err := p.condition(c); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if len(p.rest) > 0 {
		return nil, fmt.Errorf("%q: %q is too much", text, strings.Join(p.rest, " "))
	}
	return c, nil
}

// parser takes words off a condition.
type parser struct {
	rest []string
	of   *domain.Domain
}

// next is the next word, "" if there is none.
func (p *parser) next() string {
	if len(p.rest) == 0 {
		return ""
	}
	word := p.rest[0]
	p.rest = p.rest[1:]
	return word
}

func (p *parser) condition(c *Condition) (err error) {
	switch word := p.next(); {
	case word == "assert":
		c.kind = promises
		return p.promises(c)
	case word == "path":
		c.kind = pathChange
		if next := p.next(); next != "change" {
			return fmt.Errorf("%q behind \"path\": use \"path change\"", next)
		}
		return nil
	case word == "loss" || strings.HasPrefix(word, "loss."):
		c.kind = losses
		if place, is := strings.CutPrefix(word, "loss."); is {
			if c.at, err = p.end(place, false); err != nil {
				return err
			}
		}
		if c.count, err = p.moreThanCount(); err != nil {
			return err
		}
		return p.in(c)
	case word == "queue":
		c.kind = queue
		if c.at, err = p.end(p.next(), true); err != nil {
			return err
		}
		c.limit, err = p.moreThan()
		return err
	case quantiles[word] > 0:
		c.kind, c.quantile = quantile, quantiles[word]
		if err := p.link(c); err != nil {
			return err
		}
		if c.limit, err = p.moreThan(); err != nil {
			return err
		}
		return p.in(c)
	default:
		return fmt.Errorf("no condition begins with %q: there are %s", word, quoted(Forms))
	}
}

// quoted lists texts.
func quoted(list []string) string {
	var all []string
	for _, text := range list {
		all = append(all, strconv.Quote(text))
	}
	return strings.Join(all, ", ")
}

// sign takes ">".
func (p *parser) sign() error {
	if word := p.next(); word != ">" {
		return fmt.Errorf("%q where \"> LIMIT\" is needed", word)
	}
	return nil
}

func (p *parser) moreThanCount() (int, error) {
	if err := p.sign(); err != nil {
		return 0, err
	}
	word := p.next()
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 || n > mostLosses {
		return 0, fmt.Errorf("%q: use a number of packets, 0 to %d", word, mostLosses)
	}
	return n, nil
}

func (p *parser) moreThan() (time.Duration, error) {
	if err := p.sign(); err != nil {
		return 0, err
	}
	return p.time(0)
}

// time takes a duration that is longer than least.
func (p *parser) time(least time.Duration) (time.Duration, error) {
	word := p.next()
	d, err := time.ParseDuration(word)
	if err != nil || d <= least || d > mostTime {
		return 0, fmt.Errorf("%q: use a time longer than %v, such as 5ms or 1s, %v at most", word, least, mostTime)
	}
	return d, nil
}

// in takes "in TIME".
func (p *parser) in(c *Condition) (err error) {
	if word := p.next(); word != "in" {
		return fmt.Errorf("%q where \"in TIME\" is needed", word)
	}
	c.within, err = p.time(0)
	return err
}

// link takes the ends of a link: "link NODE-NODE" or "NODE/PORT-NODE/PORT". Names may have a "-" themselves.
func (p *parser) link(c *Condition) error {
	word := p.next()
	nodes := word == "link"
	if nodes {
		word = p.next()
	}
	wrong, half := fmt.Errorf("%q is no link: use \"link NODE-NODE\" or \"NODE/PORT-NODE/PORT\"", word), false
	for at := range word {
		if word[at] != '-' {
			continue
		}
		from, err := p.end(word[:at], !nodes)
		if err != nil {
			if !half {
				wrong = err
			}
			continue
		}
		to, err := p.end(word[at+1:], !nodes)
		if err == nil {
			c.from, c.to = from, to
			return nil
		}
		wrong, half = err, true // one end is right: it is about the other one
	}
	return wrong
}

// end is a node, or a port, of the domain.
func (p *parser) end(word string, port bool) (end, error) {
	node, name, has := strings.Cut(word, "/")
	if has != port && (port || node == "") || port && name == "" {
		return end{}, fmt.Errorf("%q is no port: use NODE/PORT", word)
	}
	nodes := p.nodes()
	ports, known := nodes[node]
	if !known {
		return end{}, fmt.Errorf("there is no node %q%s: there are %s", node, fault.Meant(node, sorted(nodes)), strings.Join(sorted(nodes), ", "))
	}
	if has && !slices.Contains(ports, name) {
		return end{}, fmt.Errorf("node %s has no port %q: it has %s", node, name, strings.Join(ports, ", "))
	}
	return end{node, name}, nil
}

// nodes are the domain's with their ports.
func (p *parser) nodes() map[string][]string {
	nodes := make(map[string][]string)
	for _, n := range p.of.Nodes {
		if n.Removed {
			continue
		}
		nodes[n.Name] = nil
		for i := range p.of.Ports {
			if of := &p.of.Ports[i]; of.Node == n.ID && !of.Removed {
				nodes[n.Name] = append(nodes[n.Name], of.Name)
			}
		}
		for i := range p.of.Members {
			if of := &p.of.Members[i]; of.Node == n.ID && !of.Removed {
				nodes[n.Name] = append(nodes[n.Name], of.Name)
			}
		}
	}
	for _, vm := range p.of.VMs {
		nodes[vm.Name] = nil
		for i := range p.of.Ports {
			if p.of.Ports[i].VM == vm.ID {
				nodes[vm.Name] = append(nodes[vm.Name], p.of.Ports[i].Name)
			}
		}
	}
	return nodes
}

func sorted(nodes map[string][]string) (names []string) {
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
