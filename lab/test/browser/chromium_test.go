// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// page is a tab with the page of a server, in a Chromium whose network namespace has nothing but lo.
type page struct {
	testing.TB
	ctx  context.Context
	base string
	net  *nstest.Net // its namespace is "browser"

	mu       sync.Mutex
	wrong    []string // what the console says, and requests to others
	expected []string // parts of what may be said
	failed   int      // requests that the browser gave up since interfaces came or went
	scripts  int      // of these, those for the bundle
}

// open starts Chromium with an empty profile, and a tab. It has a namespace of its own: Chromium ends all its requests
// when an interface comes or goes, and other tests make interfaces all the time.
func open(t testing.TB, base string) *page {
	t.Helper()
	p := &page{TB: t, base: base, net: nstest.New(t, "browser")}
	p.relay()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.UserDataDir(t.TempDir()), chromedp.ModifyCmdFunc(p.enter))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithListener(p.hear))
	p.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		cancelAllocator()
	})
	// This starts the browser: a context with an end would end it, too.
	if err := chromedp.Do(ctx, call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{})); err != nil {
		t.Fatal(err)
	}
	p.size(1280, 800, "dark")
	return p
}

// call makes an action of a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// hear notes what must not be.
func (p *page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.base+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			p.wrong = append(p.wrong, "a request to another host: "+e.Request.URL)
		}
	case *network.EventLoadingFailed:
		if e.ErrorText == "net::ERR_NETWORK_CHANGED" {
			p.failed++
			if e.Type == network.ResourceTypeScript {
				p.scripts++
			}
		}
	case *log.EventEntryAdded:
		// The tests read pixels, and Chromium has a hint for who does that often.
		if (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) && !strings.Contains(e.Entry.Text, "willReadFrequently") {
			p.wrong = append(p.wrong, fmt.Sprintf("console: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.wrong = append(p.wrong, fmt.Sprintf("console: %v", e.Args))
		}
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, fmt.Sprintf("an exception: %+v", e.ExceptionDetails))
	}
}

// failures is how many requests the browser has given up since interfaces came or went, and how many were for the bundle.
func (p *page) failures() (all, scripts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed, p.scripts
}

// clean fails the test if the console has errors, or another host was asked.
func (p *page) clean() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.wrong {
		ok := false
		for _, part := range p.expected {
			ok = ok || strings.Contains(text, part)
		}
		if !ok {
			p.Error(text)
		}
	}
	p.wrong = nil
}

// do runs actions, each of which has to be possible at all.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	for i, action := range actions {
		ctx, cancel := context.WithTimeout(p.ctx, nstest.Patience)
		err := chromedp.Do(ctx, action)
		cancel()
		if err != nil {
			p.shot("failed")
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
			p.Fatalf("action %d: %v\nthe page says: %s\n%s", i, err, text, strings.Join(p.wrong, "\n"))
		}
	}
}

// in reports to a subtest.
func (p *page) in(t testing.TB) *page {
	p.TB = t
	return p
}

// wait waits until an expression is true.
func (p *page) wait(what, expression string) {
	p.Helper()
	defer func() {
		if p.Failed() {
			p.shot("failed")
			p.Logf("the page says: %s\n%s", eval[string](p, `document.body.innerText`), strings.Join(p.wrong, "\n"))
		}
	}()
	nstest.WaitFor(p, what, func() bool { return eval[bool](p, "Boolean("+expression+")") })
}

// see waits until an element is there and can be seen.
func (p *page) see(selector string) {
	p.Helper()
	p.wait(selector+" is seen", fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
}

// button is an expression for a button with this text.
func button(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === %q)`, text)
}

// click clicks an element, which an expression names, as soon as a mouse in the middle of what is seen of it would hit it.
// Both are one step: an answer that comes between looking and clicking moves what is below it.
func (p *page) click(element string) {
	p.Helper()
	p.wait(element+" is clicked", fmt.Sprintf(`(() => {
		const e = %s;
		if (!e?.checkVisibility() || e.disabled) return false;
		e.scrollIntoView({ block: 'center' });
		const r = e.getBoundingClientRect();
		const hit = document.elementFromPoint((Math.max(r.left, 0) + Math.min(r.right, innerWidth)) / 2, r.y + r.height / 2);
		if (!hit || !e.contains(hit)) return false;
		e.focus();
		(hit.click ? hit : e).click(); // a picture in a button has no click
		return true;
	})()`, element))
}

// size is that of the window, and whether dark or light is preferred.
func (p *page) size(width, height int64, theme string) {
	p.Helper()
	p.do(chromedp.EmulateViewport(width, height), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}))
}

// show goes to a view of a domain, and loads the page anew.
func (p *page) show(view string, query ...string) {
	p.Helper()
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.base+"/#/"+view+"?"+values.Encode()))
	p.see("main")
}

// eval evaluates an expression, which may be a promise. What the page's main.js exports is radar.
func eval[T any](p *page, expression string) (value T) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, nstest.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%v, of %s", err, expression)
	}
	return value
}

// shot keeps a screenshot, if RADAR_SHOTS names a folder.
func (p *page) shot(name string) {
	p.Helper()
	dir := os.Getenv("RADAR_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Log(err)
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.Fatal(err)
	}
}

// typeInto types a text into a field that is empty.
func (p *page) typeInto(selector, text string) {
	p.Helper()
	p.see(selector)
	p.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// selectOption chooses one of a list, as a user's choice is told to the page.
func selectOption(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool](fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event('change', { bubbles: true })); return e.value === %[2]q; })()`, selector, value))(ctx, target)
		return err
	})
}
