package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// The widths at which every page must be readable.
const narrow, wide = 360, 1280

// page is one window with cookies of its own.
type page struct {
	*testing.T
	ctx  context.Context
	host string // the only one that the page may ask
	bare bool   // without JavaScript

	mu       sync.Mutex
	faults   []string
	expected []string // parts of faults that the test provokes
}

// open opens a window for the server at base. With scripts off it is a browser
// without JavaScript.
func open(t *testing.T, base string, scripts bool) *page {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	p := &page{T: t, host: u.Host, bare: !scripts}
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p.ctx = ctx
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(wide, 800)))
	require.NoError(t, chromedp.Listen(ctx, p.heard))
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	p.scripts(scripts)
	p.scheme("light")
	t.Cleanup(func() { require.Empty(t, p.heardFaults(), "what the browser complained about") })
	return p
}

// heard notes what no page may do.
func (p *page) heard(ev any) {
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err != nil || u.Host != p.host && u.Scheme != "data" && u.Scheme != "about" {
			p.fault("a request to another host: " + ev.Request.URL)
		}
	case *log.EventEntryAdded:
		p.fault(fmt.Sprintf("%s %s: %s", ev.Entry.Source, ev.Entry.Level, ev.Entry.Text))
	case *runtime.EventExceptionThrown:
		p.fault("script error: " + (&chromedp.ExceptionError{ExceptionDetails: ev.ExceptionDetails}).Error())
	}
}

func (p *page) fault(said string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, said)
}

// expects allows faults that contain the text: the test provokes them.
func (p *page) expects(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

func (p *page) heardFaults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.faults), func(fault string) bool {
		return slices.ContainsFunc(p.expected, func(text string) bool { return strings.Contains(fault, text) })
	})
}

// do runs steps and fails the test with the page's text if they do not end in time.
func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		require.NoError(p, err, "%s\n%s\n%v", p.at(), p.text(), p.heardFaults())
	}
}

// evaluate returns the value of a JavaScript expression. It works with scripts off,
// too.
func evaluate[T any](p *page, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "navigated or closed") { // the page reloaded itself meanwhile
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	}
	require.NoError(p, err, expression)
	return value
}

func (p *page) goTo(address string) {
	p.Helper()
	p.do(chromedp.Navigate(address))
}

func (p *page) at() string { return evaluate[string](p, "location.href") }

// text is what a person sees; nothing while the page is being replaced by the next.
func (p *page) text() string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil && strings.Contains(err.Error(), "navigated") {
		return ""
	}
	require.NoError(p, err)
	return text
}

// sees waits until the page shows a text.
func (p *page) sees(text string) {
	p.Helper()
	p.until("the page shows "+text, func() bool { return strings.Contains(p.text(), text) })
}

// contains reports whether the page shows a text now.
func contains(p *page, text string) bool { return strings.Contains(p.text(), text) }

func (p *page) until(what string, condition func() bool) {
	p.Helper()
	for began := time.Now(); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			require.Fail(p, what, "%s\n%s", p.at(), p.text())
		}
	}
}

// click clicks what a person would: the visible link, button or label with that text.
func (p *page) click(text string) {
	p.Helper()
	p.clickOn(text, `//*[self::a or self::button or self::label or self::summary][normalize-space()=%q]`)
}

// clickOn clicks the visible element at an XPath with a text. It is the element that gets the
// click, not the place where it was: a page that updates itself may move or replace it
// meanwhile, which a browser's driver fails on.
func (p *page) clickOn(text, path string) {
	p.Helper()
	path = fmt.Sprintf(path, text)
	p.until("the page has "+text, func() bool {
		return evaluate[bool](p, fmt.Sprintf(`(n => n !== null && n.checkVisibility() && (n.click(), true))(document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE, null).singleNodeValue)`, path))
	})
}

// tick ticks the box with that name.
func (p *page) tick(name string) {
	p.Helper()
	p.do(chromedp.Click(chromedp.Search(fmt.Sprintf(`//input[@aria-label=%q]`, name)), chromedp.NodeVisible))
}

// press presses the button with that text in the main part of the page.
func (p *page) press(text string) {
	p.Helper()
	p.clickOn(text, `//main//button[normalize-space()=%q]`)
}

// saves follows the link with that text, which saves a file, and returns its content.
func (p *page) saves(text string) string {
	p.Helper()
	folder := p.TempDir()
	_, err := chromedp.Call(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID})
	require.NoError(p, err)
	p.click(text)
	var content []byte
	p.until("the file is saved", func() bool {
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		require.NoError(p, err)
		if len(files) != 1 || strings.HasSuffix(files[0], ".crdownload") || strings.Contains(files[0], "org.chromium") {
			return false
		}
		content, err = os.ReadFile(files[0])
		return err == nil && len(content) > 0
	})
	return string(content)
}

// fill types into the field with that label.
func (p *page) fill(label, value string) {
	p.Helper()
	p.do(chromedp.SendKeys(field(label), value, chromedp.NodeVisible))
}

// upload chooses files in the field with that label.
func (p *page) upload(label string, files ...string) {
	p.Helper()
	p.do(chromedp.SetUploadFiles(field(label), files))
}

// posts sends a form as a script of the page's own could, and returns the status.
func (p *page) posts(path string, fields ...string) (status int) {
	p.Helper()
	form := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	body, err := json.Marshal(form.Encode())
	require.NoError(p, err)
	return evaluate[int](p, fmt.Sprintf(`fetch(%q, {method: "POST", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body: %s}).then(r => r.status)`, path, body))
}

// seen returns the mark that the page's form carries.
func (p *page) seen() string {
	p.Helper()
	return evaluate[string](p, `document.querySelector("[name=seen]").value`)
}

func field(label string) chromedp.Search {
	return chromedp.Search(fmt.Sprintf(`//*[@id=//label[normalize-space()=%[1]q]/@for] | //label[starts-with(normalize-space(),%[1]q)]//*[self::input or self::select or self::textarea]`, label))
}

func (p *page) scripts(on bool) {
	p.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	require.NoError(p, err)
}

// scheme sets the colour scheme that the person prefers: light or dark.
func (p *page) scheme(name string) {
	p.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	require.NoError(p, err)
}

func (p *page) width(pixels int64) {
	p.Helper()
	p.do(chromedp.EmulateViewport(pixels, 800))
}

// screenshot returns the whole page as PNG.
func (p *page) screenshot() []byte {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(p, err)
	return picture
}
