// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// check refuses what fields say together.
func (r *reader) check(f *File) {
	if n := len(f.Assertions); n == 0 || n > MaxAssertions {
		r.errorf(r.places["assertions"], "assertions", "there are %d: use 1 to %d", n, MaxAssertions)
	}
	names := make(map[string]int)
	for i := range f.Assertions {
		a, path := &f.Assertions[i], fmt.Sprintf("assertions[%d]", i)
		if a.Name == "" {
			r.errorf(r.places[path], path, "it has no name")
		} else if line, is := names[a.Name]; is {
			r.errorf(r.places[path+".name"], path+".name", "%q: line %d has that name already", a.Name, line)
		}
		names[a.Name] = a.Line
		r.checkOne(a, path)
	}
}

func (r *reader) checkOne(a *Assertion, path string) {
	checks := a.checks()
	switch len(checks) {
	case 0:
		r.errorf(r.places[path], path, "it checks nothing: use one of %s", strings.Join(checkNames(), ", "))
		return
	case 1:
	default:
		r.errorf(r.places[path+"."+checks[1]], path, "it has %d checks (%s): use an assertion for each", len(checks), strings.Join(checks, ", "))
		return
	}
	field := path + "." + checks[0]
	at := r.places[field]
	switch {
	case a.Loss != nil && (a.Loss.AtMost == nil) == (a.Loss.Below == nil):
		r.errorf(at, field, "use at_most, a number of packets, or below, a share")
	case a.Latency != nil && len(a.Latency.bounds()) == 0:
		r.errorf(at, field, "there is no bound: use p50, p90, p99, p99.9 or max")
	case a.Latency != nil && len(a.Latency.places()) > 1:
		r.errorf(at, field, "%s: use one of them", strings.Join(a.Latency.places(), ", "))
	case a.Latency != nil:
		r.checkPort(field+".link", a.Latency.Link)
		r.checkPort(field+".queue", a.Latency.Queue)
	case a.NAT != nil && *a.NAT == NAT{}:
		r.errorf(at, field, "use src, dst, sport or dport")
	case a.Rate != nil && *a.Rate == Rate{}, a.Packets != nil && *a.Packets == Quantity{}:
		r.errorf(at, field, "use at_least or at_most")
	case a.Balance != nil:
		r.checkBalance(a.Balance, field)
	case len(a.Cause)+len(a.NeverCause) == 0 && a.Explains():
		r.errorf(at, field, "it names no cause: it says nothing")
	case len(a.Path)+len(a.Crosses)+len(a.NeverCrosses) == 0 && (a.Path != nil || a.Crosses != nil || a.NeverCrosses != nil):
		r.errorf(at, field, "it names no node: it says nothing")
	}
	if slices.Contains(a.Select.State, "in_flight") {
		r.errorf(r.places[path+".select.state"], path+".select.state", "in_flight: assertions are about packets that have ended")
	}
}

// checkPort refuses a place that is no port.
func (r *reader) checkPort(field, name string) {
	if node, port, ok := strings.Cut(name, "/"); name != "" && (!ok || node == "" || port == "") {
		r.errorf(r.places[field], field, "%q: use NODE/PORT, such as r1/eth1", name)
	}
}

func (r *reader) checkBalance(b *Balance, field string) {
	at := r.places[field]
	switch {
	case b.Over == NextHops && b.At == "":
		r.errorf(at, field, "over next_hops: say of which node (at)")
	case b.Over != NextHops && b.At != "":
		r.errorf(r.places[field+".at"], field+".at", "only with over: next_hops")
	case len(b.Weights) == 1:
		r.errorf(r.places[field+".weights"], field+".weights", "there is one: use two or more")
	case b.Ways != nil && (*b.Ways < 2 || b.Weights != nil && int(*b.Ways) != len(b.Weights)):
		r.errorf(r.places[field+".ways"], field+".ways", "%d: use 2 or more, and as many as there are weights", *b.Ways)
	}
}

// firstCheck is the index of the first field of an Assertion that is a check.
var firstCheck = slices.Index(fieldNames(reflect.TypeFor[Assertion]()), "no_loss")

// checkNames are the checks that there are.
func checkNames() []string { return fieldNames(reflect.TypeFor[Assertion]())[firstCheck:] }

// checks are those of an assertion.
func (a *Assertion) checks() (list []string) {
	v := reflect.ValueOf(a).Elem()
	for i, name := range checkNames() {
		if !v.Field(firstCheck + i).IsZero() {
			list = append(list, name)
		}
	}
	return list
}

// Check is the name of what the assertion checks.
func (a *Assertion) Check() string { return a.checks()[0] }

// IsFinal reports whether no further packet can mend what is broken.
func (a *Assertion) IsFinal() bool {
	switch {
	case a.Loss != nil:
		return a.Loss.Below == nil
	case a.Latency != nil:
		return !slices.ContainsFunc(a.Latency.bounds(), func(b bound) bool { return b.share < 1 })
	case a.Packets != nil:
		return a.Packets.AtLeast == nil
	}
	return a.Balance == nil && a.Rate == nil && !a.Explains()
}

// bound is one of a latency.
type bound struct {
	name  string
	share float64 // that takes less
	ns    int64
}

func (l *Latency) bounds() (list []bound) {
	for _, b := range []struct {
		name  string
		share float64
		ns    *Duration
	}{{"p50", 0.5, l.P50}, {"p90", 0.9, l.P90}, {"p99", 0.99, l.P99}, {"p99.9", 0.999, l.P999}, {"max", 1, l.Max}} {
		if b.ns != nil {
			list = append(list, bound{b.name, b.share, int64(*b.ns)})
		}
	}
	return list
}

func (l *Latency) places() (list []string) {
	for _, p := range []struct{ name, value string }{{"node", l.Node}, {"link", l.Link}, {"queue", l.Queue}, {"hop", l.Hop}} {
		if p.value != "" {
			list = append(list, p.name+" "+p.value)
		}
	}
	return list
}
