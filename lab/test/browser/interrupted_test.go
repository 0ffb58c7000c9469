// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"github.com/vishvananda/netlink"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestInterrupted: interfaces come and go in the browser's namespace while the page loads, asks and listens, as they do
// when containers start. Chromium gives up each request that waits for a connection then (net::ERR_NETWORK_CHANGED). The
// page becomes full nevertheless, and a listener whose connections break gets each event once.
func TestInterrupted(t *testing.T) {
	need.Programs(t, "nft:nftables")
	w := newWorld(t, "bottleneck")
	w.load()
	between := &interrupter{t: t, server: w.url}
	proxy := httptest.NewServer(between)
	t.Cleanup(proxy.Close)
	p := open(t, proxy.URL)
	p.expected = []string{"net::ERR_NETWORK_CHANGED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_EMPTY_RESPONSE"}
	between.page, between.links = p, p.net.Handle("browser")

	between.begin()
	// Navigate would wait until all that the document asks for has come or failed.
	eval[bool](p, fmt.Sprintf(`Boolean(setTimeout(() => { location.href = '%s/#/topology?domain=%s'; }))`, p.base, w.lab))
	between.interrupt(1, func(_, scripts int) int { return scripts })
	between.release()
	p.see("main")
	between.hold()
	between.interrupt(3, anything) // questions, and the page's own stream
	t.Run("stream", func(t *testing.T) { resumed(t, w, p.in(t), between) })

	p.in(t).wait("each direction of the five links has a row", `document.querySelectorAll('[data-link]').length === 10`)
	nstest.WaitFor(t, "losses are shown", func() bool { return lostAt(p, "r2/eth1 > r3/eth0") > 100 })
	p.wait("the page is styled", `getComputedStyle(document.querySelector('header.head')).display === 'flex'`)
	p.wait("nothing is reconnecting", `radar.health.connected.value.ok && !document.body.innerText.includes('Reconnecting')`)
	p.shot("interrupted-1280")
	p.clean()
}

// resumed: what a listener gets over connections that break is what one gets whose connection does not.
func resumed(t *testing.T, w *world, p *page, between *interrupter) {
	const cuts, events = 4, 16
	whole := listenTo(t, w.url+"/api/v1/domains/"+w.lab+"/events?topic=packet,load,event&rate=5&proto=udp", 3*events)
	eval[bool](p, fmt.Sprintf(`(() => { window.got = []; window.broken = 0;
		radar.listen('/domains/%s/events', { topic: 'packet,load,event', rate: 5, proto: 'udp' }, { open() {}, closed() { broken++; }, refused(e) { got.push(e.text); },
			event(name, data, id) { got.push(id + ' ' + name); } }, new AbortController().signal); return true; })()`, w.lab))
	between.interrupt(3, anything)
	between.end()
	for range cuts {
		n := eval[int](p, "window.last = broken, got.length")
		p.wait("the stream goes on", fmt.Sprintf("got.length >= %d", n+2))
		between.cuts.Add(1)
		p.wait("the stream breaks", "broken > last")
	}
	p.wait("the stream goes on", fmt.Sprintf("got.length >= %d", events))
	got := eval[[]string](p, "got")[:events]
	want := whole()
	begin := slices.Index(want, got[0])
	if begin < 0 || begin+events > len(want) || !slices.Equal(got, want[begin:begin+events]) {
		t.Errorf("over connections that broke came\n%s\nover one that did not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// listenTo listens from now on. The returned function waits for so many events, and returns the id and name of each.
func listenTo(t *testing.T, url string, n int) func() []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return func() (list []string) {
		id, name := "", ""
		for lines := bufio.NewScanner(response.Body); len(list) < n && lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				name = value
			case "data":
				list = append(list, id+" "+name)
			}
		}
		return list
	}
}

// anything counts all requests.
func anything(all, _ int) int { return all }

// interrupter stands between the page and its server. While it interrupts, each answer ends its connection, so that
// whatever the browser asks for waits for one; and connections do not come about while interfaces come and go.
type interrupter struct {
	t      *testing.T
	server string
	page   *page
	links  *netlink.Handle

	cuts     atomic.Int64 // counts up: streams that are there end in the midst of their next event
	answered atomic.Int64
	bundles  atomic.Int64 // times that the bundle was asked for
	on       atomic.Bool
	came     int // interfaces
}

// begin makes what is asked after the next document wait.
func (i *interrupter) begin() { i.on.Store(true) }

// end lets everything pass.
func (i *interrupter) end() {
	i.on.Store(false)
	i.release()
}

// hold lets no connection come about: what the browser asks for waits. The namespace has no other packets.
func (i *interrupter) hold() {
	i.page.net.Run("browser", "nft", "add table ip hold; add chain ip hold in { type filter hook input priority 0; }; add rule ip hold in tcp flags & (syn | ack) == syn drop")
}

func (i *interrupter) release() {
	_, _ = i.page.net.Try("browser", "nft", "delete table ip hold")
}

// interrupt lets interfaces come and go until the browser gives up what it asks for, and after that lets something pass,
// and so on.
func (i *interrupter) interrupt(times int, of func(all, scripts int) int) {
	i.t.Helper()
	for range times {
		before := of(i.page.failures())
		nstest.WaitFor(i.t, "the browser gives up a request", func() bool {
			i.comeAndGo()
			return of(i.page.failures()) > before
		})
		answered := i.answered.Load()
		i.release()
		nstest.WaitFor(i.t, "the browser asks again", func() bool { return i.answered.Load() > answered })
		i.hold()
	}
}

func (i *interrupter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.on.Load() {
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/" {
			i.hold()
		}
		if r.URL.Path == "/assets/page.js" && i.bundles.Add(1) == 1 {
			panic(http.ErrAbortHandler) // the browser may have had a connection from before: now it waits for one
		}
	}
	request := r.Clone(r.Context())
	request.URL.Scheme, request.URL.Host, request.RequestURI = "http", strings.TrimPrefix(i.server, "http://"), ""
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		panic(http.ErrAbortHandler) // the browser has gone
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	i.answered.Add(1)
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		i.stream(w, response.Body)
		return
	}
	_, _ = io.Copy(w, response.Body)
}

// stream passes on events, until the browser ends it.
func (i *interrupter) stream(w http.ResponseWriter, body io.Reader) {
	lines := bufio.NewReader(body)
	for cuts := i.cuts.Load(); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if i.cuts.Load() > cuts && bytes.HasPrefix(line, []byte("data:")) {
			_, _ = w.Write(line[:len(line)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(line)
		_ = http.NewResponseController(w).Flush()
	}
}

// comeAndGo lets a pair of interfaces come, one with an address, and go, as a container's do.
func (i *interrupter) comeAndGo() {
	i.came++
	name := fmt.Sprintf("came%d", i.came)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	if err := i.links.LinkAdd(link); err != nil {
		i.t.Error(err)
		return
	}
	address, _ := netlink.ParseAddr("10.99.0.1/32")
	for _, err := range []error{i.links.AddrAdd(link, address), i.links.LinkSetUp(link), i.links.LinkDel(link)} {
		if err != nil {
			i.t.Error(err)
		}
	}
}
