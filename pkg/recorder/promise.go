// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// mostPromises bounds what each packet is held against.
const mostPromises = 64

// windowTrials is how many windows of a promise are open at once. Each packet counts in all of them, so the work for a
// packet is bounded; and a promise is checked so many times in each TIME.
const windowTrials = 4

// mostOfFlows bounds what the windows of a file's promises keep of flows together: packets of no_reordering, and paths of
// flows of balance. Each of them takes some 350 bytes.
const mostOfFlows = 1 << 16

// promise is an assertion of a file, and the packets that it is about.
type promise struct {
	of        *Condition // the file's, with the name of the promise
	assertion *assertion.Assertion
	selection *answer.Selection
}

// promises reads the file of "assert FILE in TIME". Its name may have spaces.
func (p *parser) promises(c *Condition) error {
	at := len(p.rest) - 2 // "in TIME"
	if at < 1 || p.rest[at] != "in" {
		return fmt.Errorf("use \"assert FILE in TIME\"")
	}
	name := strings.Join(p.rest[:at], " ")
	p.rest = p.rest[at:]
	if err := p.in(c); err != nil {
		return err
	}
	if least := windowTrials * every; c.within < least { // a window begins with each look at the ring
		return fault.Usage.Errorf("%v: use %v at least: packets are looked at every %v", c.within, least, every)
	}
	text, err := readFile(name)
	if err != nil {
		return err
	}
	file, err := assertion.Read(name, text)
	if err != nil {
		return err
	}
	if n := len(file.Assertions); n > mostPromises {
		return fault.Usage.Errorf("%s has %d assertions: a flight recorder watches %d at most", name, n, mostPromises)
	}
	var errs []error
	owners := answer.OwnersOf(p.of.Name)
	for i := range file.Assertions {
		a := &file.Assertions[i]
		s, err := p.selection(a, owners)
		if err != nil {
			errs = append(errs, a.ErrorAt(name, err.Error()))
			continue
		}
		if a.Explains() {
			errs = append(errs, a.ErrorAt(name, a.Check()+": a flight recorder cannot follow what holds flows: ask «assert» afterwards"))
			continue
		}
		of := &Condition{Text: c.Text, kind: promises, within: c.within}
		c.promises = append(c.promises, promise{of, a, s})
	}
	return errors.Join(errs...)
}

// Absolute is a condition whose file is named from the root on: another process finds it, too.
func Absolute(text string) (string, error) {
	words := strings.Fields(text)
	at := len(words) - 2 // "in TIME"
	if at < 2 || words[0] != "assert" {
		return text, nil
	}
	name, err := filepath.Abs(strings.Join(words[1:at], " "))
	return strings.Join(append([]string{"assert", name}, words[at:]...), " "), err
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, assertion.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// selection is what of the packets an assertion is about. Nodes and ports must be the domain's.
func (p *parser) selection(a *assertion.Assertion, owners *answer.Owners) (*answer.Selection, error) {
	spec := a.Select.Spec()
	for _, field := range []*string{&spec.Src, &spec.Dst} {
		if *field == "" {
			continue
		}
		list, err := owners.AddressesOf(strings.Split(*field, ","))
		if err != nil {
			return nil, fmt.Errorf("select.%w", err)
		}
		*field = strings.Join(list, ",")
	}
	s, err := answer.Select(spec)
	if err == nil && a.Select.Filter != "" {
		var text string
		if text, err = answer.WithAddresses(a.Select.Filter, owners.AddressesOf); err == nil {
			err = s.Narrow(text)
		}
		if err != nil {
			err = fmt.Errorf("filter: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("select.%w", err)
	}
	for _, node := range slices.Concat(a.Nodes(), s.Nodes()) {
		if _, err := p.end(node, false); err != nil {
			return nil, err
		}
	}
	for _, place := range a.Places() {
		if _, err := p.end(place, strings.Contains(place, "/")); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// heldPromise is a promise over time.
type heldPromise struct {
	promise
	trials   []trial // by begin
	fails    bool    // it was broken when it was checked last
	reported bool    // that there is no room for it
}

// trial is a promise in one window: of the packets whose end became known in it. It ends with the look at the ring that
// is due when TIME has passed.
type trial struct {
	*assertion.Trial
	begin int64 // CLOCK_MONOTONIC
	first int64 // the first end of a packet, as T0: before begin, since packets are known later
}

// addPromises holds a packet against the promises that are about it.
func (w *watch) addPromises(p *packet.Packet) {
	var r *record.Record
	for i := range w.held {
		j := &w.held[i]
		if !j.selection.Match(p, w.of) {
			continue
		}
		if r == nil {
			r = w.records.Record(p)
		}
		for k := range j.trials {
			t := &j.trials[k]
			t.Add(r)
			t.first = min(t.first, int64(p.T0)+max(p.LastNs, 0))
		}
	}
}

// checkWindows checks the windows that have ended, and begins new ones. The condition is met by the first window in which
// a promise is broken that held before, or of which nothing was known.
func (w *watch) checkWindows() {
	now := w.now()
	for i := range w.held {
		j := &w.held[i]
		for len(j.trials) > 0 && j.trials[0].begin+int64(w.within) <= now {
			w.checkWindow(j, &j.trials[0], now)
			j.trials[0].Free()
			j.trials = slices.Delete(j.trials, 0, 1)
		}
		if w.ending {
			continue
		}
		if n := len(j.trials); n == 0 || now-j.trials[n-1].begin >= int64(w.within)/windowTrials {
			j.trials = append(j.trials, trial{assertion.NewUnsorted(j.assertion, w.room), now, math.MaxInt64})
		}
	}
	if w.ending {
		w.checkLast(now)
	}
}

// checkLast checks promises in the time that is left when the recorder ends, which is shorter than TIME: those that no
// later packet could make hold again.
func (w *watch) checkLast(now int64) {
	var names []string
	first := now
	for i := range w.held {
		j := &w.held[i]
		switch {
		case len(j.trials) == 0:
		case j.assertion.IsFinal():
			w.checkWindow(j, &j.trials[0], now)
		case !j.fails:
			names, first = append(names, strconv.Quote(j.assertion.Name)), min(first, j.trials[0].begin)
		}
	}
	if len(names) > 0 {
		took := time.Duration(now - first).Round(time.Millisecond)
		w.notes = append(w.notes, fmt.Sprintf("the last %v are too short to decide %s", took, strings.Join(names, ", ")))
	}
}

// checkWindow checks a promise in a window that has ended.
func (w *watch) checkWindow(j *heldPromise, t *trial, now int64) {
	r := t.Result(func() string { return "" })
	if r.Undecided && t.IsOver() && !j.reported {
		j.reported = true
		w.notes = append(w.notes, fmt.Sprintf("%q (line %d) cannot be decided: there are too many packets or flows in %v, select fewer", r.Name, r.Line, w.within))
	}
	before := j.fails
	j.fails = r.Verdict == assertion.Fails && !r.Undecided
	if before || !j.fails {
		return
	}
	value := fmt.Sprintf("%q (line %d) is broken: %s, promised: %s", r.Name, r.Line, r.Measured, r.Promised)
	w.seen = append(w.seen, met{j.of, min(t.begin, t.first), now, value})
}
