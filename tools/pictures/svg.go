package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Measures in pixels, and the moments of the animation in milliseconds.
const (
	cell                   = 7.8
	line, margin, bar      = 17, 16, 30
	typing, printing, rest = 400, 50, 250
)

// The colours of GitHub's own code blocks, which keep a contrast of at least 4.5 to 1.
const style = `
.bg{fill:#f6f8fa;stroke:#d1d9e0}.bar{fill:#d1d9e0}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.p{fill:#59636e}.c{font-weight:600}.n{fill:#59636e;font-weight:400}.k{fill:#d1242f;font-weight:600}.g{fill:#1a7f37;font-weight:600}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117;stroke:#3d444d}.bar{fill:#3d444d}text{fill:#e6edf3}.p,.n{fill:#9198a1}.k{fill:#ff7b72}.g{fill:#3fb950}}
@keyframes show{from{opacity:0}}
g g{animation:show 1ms step-end backwards}
@media (prefers-reduced-motion:reduce){g g{animation:none}}
`

// draw renders the terminal. It plays once, line by line; the last frame is the
// whole, and so is what a viewer shows that does not animate.
func draw(lines []string) []byte {
	longest := 0
	for _, text := range lines {
		longest = max(longest, utf8.RuneCountInString(text))
	}
	width, height := int(float64(longest)*cell)+2*margin, bar+len(lines)*line+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t d">`+"\n",
		width, height, width, height)
	b.WriteString(`<title id="t">A terminal: a worker is killed, and the books balance</title>` + "\n")
	fmt.Fprintf(&b, "<desc id=\"d\">%s</desc>\n", html.EscapeString(strings.Join(lines, "\n")))
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<rect class="bg" x=".5" y=".5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	for i := range 3 {
		fmt.Fprintf(&b, `<circle class="bar" cx="%d" cy="15" r="5"/>`, margin+5+i*17)
	}
	b.WriteString("\n<g>\n")
	at := 300
	for i, text := range lines {
		if strings.TrimSpace(text) == "" {
			continue
		}
		fmt.Fprintf(&b, `<g style="animation-delay:%dms"><text x="%d" y="%d" textLength="%g" xml:space="preserve">%s</text></g>`+"\n",
			at, margin, bar+(i+1)*line-4, float64(utf8.RuneCountInString(text))*cell, coloured(text))
		at += printing
		if strings.HasPrefix(text, "$ ") {
			at += typing
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "$ ") {
			at += rest
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

// coloured marks up a line: the prompt, the command and its comment, the kill, and
// the sentence that everything is for.
func coloured(text string) string {
	span := func(class, s string) string {
		if s == "" {
			return ""
		}
		return `<tspan class="` + class + `">` + html.EscapeString(s) + `</tspan>`
	}
	command, typed := strings.CutPrefix(text, "$ ")
	switch {
	case typed:
		class := "c"
		if strings.HasPrefix(command, "kill -9") {
			class = "k"
		}
		said, comment, found := strings.Cut(command, "   # ")
		if found {
			comment = "   # " + comment
		}
		return span("p", "$ ") + span(class, said) + span("n", comment)
	case text == "The books balance.":
		return span("g", text)
	}
	return html.EscapeString(text)
}
