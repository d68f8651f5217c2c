package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// chromium is the running browser; each page is a window of its own in it.
var chromium context.Context

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	path, err := findChromium()
	if err != nil {
		return 1, err
	}
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 1, err
	}
	programs, err = os.MkdirTemp("", "programs")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile), os.RemoveAll(programs)) }()
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // Chromium's own sandbox refuses to run as root, as CI does; all pages are ours
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		// Names beyond this machine do not exist, so nothing can be asked of them.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		// The same pixels wherever the same fonts are.
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("disable-lcd-text", true),
		chromedp.Flag("lang", "en-GB"),
		chromedp.Env("TZ=UTC", "LANGUAGE=en_GB"),
	)...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		return 1, fmt.Errorf("%s does not start: %w", path, err)
	}
	chromium = ctx
	code = m.Run()
	return code, chromedp.Cancel(ctx)
}

// findChromium fails where none is: tests that do not run would look like tests that
// pass.
func findChromium() (string, error) {
	if path := os.Getenv("ORDERPOST_CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium here: install one (apt install chromium), or name it in ORDERPOST_CHROMIUM")
}
