// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	lookEvery, holdEvery, leastWait, drainQuiet = time.Millisecond, 5*time.Millisecond, 5*time.Millisecond, time.Millisecond
	os.Exit(m.Run())
}

// world is the devices of a test. It records in which order the service changes them: that nothing else
// differs from real devices, the tests of drivers show.
type world struct {
	t        *testing.T
	mu       sync.Mutex
	holds    map[string]State
	down     map[string]bool // devices that do not answer
	fails    map[string]error
	log      []string
	crashAt  int                // number of the operation at which the service is killed; 0: none
	half     bool               // the operation was done before
	crash    context.CancelFunc // kills it
	abil     map[string]Abilities
	checking bool
	links    [][]string // DEVICE/PORT of both ends: check follows packets with INT
	nobody   bool       // the collector's name is not known
}

func newWorld(t *testing.T) *world {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	return &world{t: t, holds: make(map[string]State), down: make(map[string]bool), fails: make(map[string]error), abil: make(map[string]Abilities), checking: true}
}

func (w *world) Name() string       { return "ebpf" }
func (w *world) Check(Device) error { return nil }
func (w *world) Connect(_ context.Context, d Device) (Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down[d.Name] {
		return nil, errors.New("no answer")
	}
	return &recorder{w: w, name: d.Name}, nil
}

var able = Abilities{
	Modes: []Mode{MD, MD10, MX, XD}, Instructions: 0xff00, Reports: []string{"2.0"}, MarkDSCP: true, MarkPort: true,
	Expressions: true, Ranges: true, Sampling: true, MaxEntries: 4, Postcards: true,
}

// operation notes one. It reports whether the device still does it.
func (w *world) operation(text string, do func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, text)
	killed := w.crashAt > 0 && len(w.log) == w.crashAt
	if !killed || w.half {
		do()
		w.check(text)
	}
	if killed {
		w.crash()
		return context.Canceled
	}
	return nil
}

// check wants all devices with hosts to take INT off while one gives it.
func (w *world) check(after string) {
	giver, marks := "", make(map[string]bool)
	for name, s := range w.holds {
		if s.gives() {
			giver = name
			marks[s.Mark] = true
		}
	}
	if giver == "" || !w.checking {
		return
	}
	if w.links != nil {
		for name, s := range w.holds {
			if s.gives() {
				w.follow(after, name, "")
			}
		}
		return
	}
	for _, name := range []string{"s1", "s3"} {
		s, has := w.holds[name]
		if has && slices.ContainsFunc(s.Ports, func(p DevicePort) bool { return p.Role == Edge }) && marks[s.Mark] && len(marks) == 1 {
			continue
		}
		w.t.Errorf("after %q %s gives INT (%v), and %s does not take it off: %+v\n%q", after, giver, marks, name, s, w.log)
	}
}

type recorder struct {
	w    *world
	name string
	last *State
}

func (r *recorder) Abilities() Abilities {
	if a, is := r.w.abil[r.name]; is {
		return a
	}
	return able
}

func (r *recorder) Plan(_ context.Context, want State) ([]string, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if has, is := r.w.holds[r.name]; is {
		return differences(&has, &want), nil
	}
	return []string{"all"}, nil
}

func (r *recorder) Apply(_ context.Context, want State) error {
	r.w.mu.Lock()
	err, down := r.w.fails[r.name], r.w.down[r.name]
	has, is := r.w.holds[r.name]
	r.w.mu.Unlock()
	if down {
		return errors.New("no answer")
	}
	if err != nil && len(want.Entries) > 0 {
		return err
	}
	r.last = &want
	if is && len(differences(&has, &want)) == 0 {
		return nil
	}
	return r.w.operation(fmt.Sprintf("%s %d", r.name, len(want.Entries)), func() { r.w.holds[r.name] = want })
}

func (r *recorder) Clear(context.Context) error {
	return r.w.operation(r.name+" clear", func() { delete(r.w.holds, r.name) })
}

func (r *recorder) Holds(context.Context) (bool, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.down[r.name] {
		return false, errors.New("no answer")
	}
	has, is := r.w.holds[r.name]
	return is && r.last != nil && len(differences(&has, r.last)) == 0, nil
}

func (r *recorder) Counters(context.Context) (map[string]uint64, error) {
	return map[string]uint64{"source": 1}, nil
}
func (r *recorder) Close() error { return nil }

// chain is h1 - s1 - s2 - s3 - h2.
func chain() Topology {
	var t Topology
	for _, name := range []string{"h1", "s1", "s2", "s3", "h2"} {
		n := TopologyNode{Device: Device{Name: name}}
		if name[0] == 's' {
			n.Driver, n.Spec = "ebpf", "netns:"+name
		}
		t.Nodes = append(t.Nodes, n)
	}
	t.Links = [][]string{{"h1/e0", "s1/e0"}, {"s1/e1", "s2/e0"}, {"s2/e1", "s3/e0"}, {"s3/e1", "h2/e0"}}
	return t
}

// run runs the service until it ends, or until returns true of its status.
func (w *world) run(store *Store, until func(Status) bool) {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w.mu.Lock()
	w.crash = stop
	w.mu.Unlock()
	s := &Service{
		Store: store, Drivers: map[string]Driver{"ebpf": w}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Resolve: func(context.Context, string) (netip.AddrPort, error) {
			if w.nobody {
				return netip.AddrPort{}, errors.New("no such host")
			}
			return netip.MustParseAddrPort("127.0.0.1:32766"), nil
		},
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func() {}) }()
	for end := time.Now().Add(time.Minute); ; {
		select {
		case err := <-done:
			stop()
			if err != nil {
				w.t.Fatal(err)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
		if st, err := store.Status(); err == nil && until(st) {
			stop()
			<-done
			return
		}
		if time.Now().After(end) {
			stop()
			st, _ := store.Status()
			w.t.Fatalf("it does not get there: %+v\n%q", st, w.log)
		}
	}
}

func (w *world) want(store *Store, change func(*Wanted)) {
	w.t.Helper()
	if _, err := store.Change(func(x *Wanted) error { change(x); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// applied reports whether the service has done what is wanted.
func applied(t *testing.T, store *Store) func(Status) bool {
	wanted, err := store.Wanted()
	if err != nil {
		t.Fatal(err)
	}
	return func(s Status) bool { return s.Applied == wanted.Generation }
}

func never(Status) bool { return false }

func openStore(t *testing.T) *Store {
	store, err := OpenStore("test")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func start(w *Wanted) {
	w.Topology, w.Running = chain(), true
	w.Intents = []Intent{{Name: "all"}}
}

// Devices with hosts come first, then transits, then entries. Off is the reverse.
func TestOrder(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.want(store, start)
	w.run(store, applied(t, store))
	phase := func(of ...string) []string { slices.Sort(of); return of }
	on := w.log
	if got := [][]string{phase(on[:2]...), on[2:3], phase(on[3:]...)}; fmt.Sprint(got) != "[[s1 0 s3 0] [s2 0] [s1 1 s3 1]]" {
		t.Errorf("on: %q", on)
	}
	w.log = nil
	w.want(store, func(x *Wanted) { x.Running = false })
	w.run(store, never)
	off := w.log
	if len(off) != 5 || fmt.Sprint([][]string{phase(off[:2]...), off[2:3], phase(off[3:]...)}) != "[[s1 0 s3 0] [s2 clear] [s1 clear s3 clear]]" {
		t.Errorf("off: %q", off)
	}
}

// Wherever the service is killed, before or after a device has done what it should, no source gives INT
// that nobody takes off, and the next one gets there.
func TestKilledAnywhere(t *testing.T) {
	changes := []func(*Wanted){
		start,
		func(x *Wanted) { x.Config.Mark = "port=5000" },
		func(x *Wanted) { // s2 gets hosts, and s4 comes
			x.Topology.Nodes = append(x.Topology.Nodes, TopologyNode{Device: Device{Name: "s4", Driver: "ebpf", Spec: "netns:s4"}})
			x.Topology.Links[2] = []string{"s2/e1", "s4/e0"}
			x.Topology.Links = append(x.Topology.Links, []string{"s4/e1", "s3/e0"})
		},
		func(x *Wanted) { x.Topology = chain() },
		func(x *Wanted) { x.Running = false },
	}
	total := 0
	for _, half := range []bool{false, true} {
		for at := 1; ; at++ {
			w := newWorld(t)
			store := openStore(t)
			w.crashAt, w.half = at, half
			for _, change := range changes {
				w.want(store, change)
				until := applied(t, store)
				if x, _ := store.Wanted(); !x.Running {
					until = never
				}
				for range 2 { // the second one finishes, if the first was killed
					w.run(store, until)
				}
			}
			total++
			if len(w.holds) > 0 {
				t.Fatalf("killed at %d: devices still hold %v", at, w.holds)
			}
			if len(w.log) < at {
				break
			}
		}
	}
	t.Logf("killed %d times", total)
}

// A device that does not answer holds up no other, but sources give nothing that it would have to take off.
func TestUnreachable(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.down["s3"] = true
	w.want(store, start)
	state := func(s Status, name string) DeviceState {
		for _, d := range s.Devices {
			if d.Name == name {
				return d.State
			}
		}
		return ""
	}
	w.run(store, func(s Status) bool {
		return state(s, "s1") == Waiting && state(s, "s2") == Ready && state(s, "s3") == Unreachable
	})
	if s := w.holds["s1"]; s.gives() {
		t.Errorf("s1 gives INT: %+v", s)
	}
	w.down["s3"] = false
	w.run(store, applied(t, store))
	// It vanishes: nobody knows whether it takes INT off.
	w.checking = false
	go func() {
		time.Sleep(50 * time.Millisecond)
		w.mu.Lock()
		w.down["s3"] = true
		w.mu.Unlock()
	}()
	w.run(store, func(s Status) bool { return state(s, "s1") == Waiting && state(s, "s3") == Unreachable })
	// It is said that it does.
	w.want(store, func(x *Wanted) { x.Config.AssumeSinks = true })
	w.run(store, func(s Status) bool { return state(s, "s1") == Ready })
	if s := w.holds["s1"]; !s.gives() {
		t.Errorf("s1 gives nothing: %+v", s)
	}
	// A domain that is not wanted any more waits for it, unless it is abandoned.
	w.want(store, func(x *Wanted) { x.Running = false })
	w.run(store, func(s Status) bool { return len(s.Devices) == 1 && state(s, "s3") == Unreachable })
	w.want(store, func(x *Wanted) { x.Abandon = true })
	w.run(store, never)
}

// A device that was restarted gets its entries again, and meanwhile sources give nothing.
func TestRestarted(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.want(store, start)
	w.run(store, applied(t, store))
	before := len(w.log)
	w.mu.Lock()
	delete(w.holds, "s3")
	w.mu.Unlock()
	w.checking = false // until the service sees it
	w.run(store, func(Status) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		a, b := w.holds["s1"], w.holds["s3"]
		return a.gives() && b.gives()
	})
	log := slices.Clone(w.log[before:])
	if len(log) != 4 {
		t.Fatalf("%q", log)
	}
	slices.Sort(log[:2]) // at the same time
	slices.Sort(log[2:])
	if text := fmt.Sprint(log); text != "[s1 0 s3 0 s1 1 s3 1]" {
		t.Errorf("%s", text)
	}
}

// What a device refuses is tried less and less often, reported, and disturbs no other.
func TestRefuses(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.fails["s1"] = errors.New("too large")
	w.want(store, start)
	w.run(store, func(s Status) bool {
		return len(s.Devices) == 3 && s.Devices[0].State == Failed && s.Devices[0].Error == "too large" && s.Devices[0].Tries > 1 && s.Devices[2].State == Ready
	})
	if n := len(w.log); n != 4 { // roles, and the entries of s3
		t.Errorf("%q", w.log)
	}
	w.mu.Lock()
	delete(w.fails, "s1")
	w.mu.Unlock()
	w.run(store, applied(t, store))
}

// An intent whose time is over leaves devices.
func TestExpires(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.want(store, func(x *Wanted) {
		start(x)
		x.Intents[0].Expires = time.Now().Add(time.Second)
	})
	w.run(store, func(s Status) bool {
		s1 := w.state("s1")
		return len(s.Intents) == 1 && s.Intents[0].State == Expired && s1.Ports != nil && !s1.gives()
	})
}

func (w *world) state(name string) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds[name]
}

// A device that has other options when the service starts anew is another one: the one before is cleared first.
func TestOtherOptions(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.want(store, start)
	w.run(store, applied(t, store))
	w.checking = false // s1 is cleared before it gets its roles
	w.want(store, func(x *Wanted) {
		x.Topology.Nodes[1].Options = map[string]any{"foreign": "drop"}
	})
	w.run(store, applied(t, store))
	if !slices.Contains(w.log, "s1 clear") || !func() bool { s := w.state("s1"); return s.gives() }() {
		t.Errorf("%q", w.log)
	}
}

// A service that starts anew and cannot find the collector gives nothing; but it stops sources when a device that takes INT
// off is lost.
func TestNoCollector(t *testing.T) {
	w, store := newWorld(t), openStore(t)
	w.want(store, start)
	w.run(store, applied(t, store))
	w.nobody, w.checking = true, false
	w.mu.Lock()
	delete(w.holds, "s3")
	w.mu.Unlock()
	w.run(store, func(Status) bool {
		s1 := w.state("s1")
		return s1.Ports != nil && !s1.gives()
	})
}
