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
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// page is a tab with the page of a server.
type page struct {
	testing.TB
	ctx  context.Context
	base string

	mu       sync.Mutex
	wrong    []string // what the console says, and requests to others
	expected []string // parts of what may be said
}

// open starts Chromium with an empty profile, and a tab.
func open(t testing.TB, base string) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.WSURLReadTimeout(time.Minute), chromedp.UserDataDir(t.TempDir()))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	p := &page{TB: t, base: base}
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

// do runs actions, each of which has to be possible within a minute.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	for i, action := range actions {
		ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
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
	end := time.Now().Add(time.Minute)
	for !eval[bool](p, "Boolean("+expression+")") {
		if time.Now().After(end) {
			p.shot("failed")
			p.Fatalf("not within a minute: %s\nthe page says: %s\n%s", what, eval[string](p, `document.body.innerText`), strings.Join(p.wrong, "\n"))
		}
		time.Sleep(50 * time.Millisecond)
	}
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

// click clicks with the mouse into the middle of what is seen of an element, which an expression names.
func (p *page) click(element string) {
	p.Helper()
	p.wait(element+" can be clicked", element+`?.checkVisibility() && !`+element+`.disabled`)
	at := eval[[]float64](p, fmt.Sprintf(`(() => { const e = %s; e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return [(Math.max(r.left, 0) + Math.min(r.right, innerWidth)) / 2, r.y + r.height / 2]; })()`, element))
	p.do(chromedp.MouseClickXY(at[0], at[1]))
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

// eval evaluates an expression, which may be a promise. Modules of the page are imported as the page itself does.
func eval[T any](p *page, expression string) (value T) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
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
