package browser

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("pictures", false, "write the pictures of the console to docs/pictures")

// pictures is where the documents' pictures are.
var pictures = filepath.Join("..", "..", "docs", "pictures")

// picture is a screenshot in the documents. Its bytes differ with fonts and versions of
// Chromium, so the tests compare what it says: testdata/NAME.txt.
type picture struct {
	name, path, scheme string
	height             int64 // 0 = the whole page
}

var taken = []picture{
	{"console-overview", "/", "light", 660},
	{"console-overview-dark", "/", "dark", 0},
	{"console-order", "/order?no=BUSY-001", "light", 0},
	{"console-letters", "/letters?batch=april", "light", 0},
	{"console-preview", "/jobs/PREVIEW", "light", 0},
}

// TestPictures: the pictures in the documents show what the console shows.
func TestPictures(t *testing.T) {
	t.Parallel()
	s := newStage(t, rare(t))
	s.fill()
	made := s.uploaded()
	p := s.loggedIn(true)
	for _, shot := range taken {
		p.do(chromedp.EmulateViewport(1000, cmp.Or(shot.height, 600)))
		p.scheme(shot.scheme)
		s.open(p, made.Replace(shot.path))
		if shot.path == "/" {
			p.sees("\n2,020\n") // all are counted
		}
		s.shows(p, shot)
	}
}

// shows compares a page with its picture, or writes the picture.
func (s *stage) shows(p *page, shot picture) {
	s.Helper()
	path := filepath.Join(pictures, shot.name+".png")
	said := filepath.Join("testdata", "pictures", shot.name+".txt")
	text := s.masked(p.text())
	if *rewrite {
		require.NoError(s, os.MkdirAll(filepath.Dir(said), 0o755))
		require.NoError(s, os.WriteFile(said, []byte(text), 0o644))
		require.NoError(s, os.WriteFile(path, small(s.T, p.taken(shot)), 0o644))
	} else {
		committed, err := os.ReadFile(said)
		require.NoError(s, err)
		require.Equal(s, string(committed), text, "%s.png shows what the console no longer shows: run `make pictures`, look at the pictures, and commit them", shot.name)
	}
	checkPicture(s.T, path)
}

// small returns the screenshot with a palette of at most 256 colours, which makes it a
// third as large. Colours that hardly differ share an entry.
func small(t *testing.T, screenshot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(screenshot))
	require.NoError(t, err)
	seen := make(map[color.RGBA]int)
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			seen[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range colours {
		if len(palette) < 256 && (len(palette) == 0 || differs(c, palette[palette.Index(c)].(color.RGBA))) {
			palette = append(palette, c)
		}
	}
	few := image.NewPaletted(bounds, palette)
	draw.Draw(few, bounds, full, bounds.Min, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	return out.Bytes()
}

// differs reports whether an eye could tell two colours apart.
func differs(a, b color.RGBA) bool {
	apart := func(x, y uint8) bool { return max(x, y)-min(x, y) > 8 }
	return apart(a.R, b.R) || apart(a.G, b.G) || apart(a.B, b.B)
}

// taken returns the page's screenshot.
func (p *page) taken(shot picture) []byte {
	p.Helper()
	if shot.height == 0 {
		return p.screenshot()
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	bits, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p, err)
	return bits
}

const largest = 120_000

func checkPicture(t *testing.T, path string) {
	t.Helper()
	bits, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(bits), largest, path)
	_, err = png.DecodeConfig(bytes.NewReader(bits))
	require.NoError(t, err, path)
}

// varying is what differs from run to run of the same programs.
var varying = []struct{ pattern, with string }{
	{`[0-9,]+ (bytes|KiB), [0-9,]+ (bytes|KiB) on disk`, "SIZE on disk"},
	{`(\d)@[0-9a-z]{10,16}\b`, "$1@BIRTH"},
	{`\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC`, "DATE"},
	{`\b\d\d:\d\d(:\d\d)?\b`, "TIME"},
	{`\b(less than a|\d+) (second|minute|hour)s?\b`, "SPAN"},
	{`\b\d+ ms\b`, "MS"},
	{`about act \w+`, "about act ID"},
	{`(?m)^Act\n\w+$`, "Act\nID"},
	{`(worker-1@|console on )\S+`, "${1}HOST"},
	{`(?m)^orderpost \S+ · `, "orderpost VERSION · "},
	{`(?m)^(Orders settled per minute.*)\n[\d,]+$`, "$1\nMOST"},
	{`127\.0\.0\.1:\d+`, "ADDRESS"},
}

func (s *stage) masked(text string) string {
	for _, v := range varying {
		text = regexp.MustCompile(v.pattern).ReplaceAllString(text, v.with)
	}
	text = strings.ReplaceAll(text, s.dir, "DIR")
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.TrimSpace(strings.Join(slices.Compact(lines), "\n")) + "\n"
}
