package main

import (
	"encoding/xml"
	"regexp"
	"slices"
	"strings"
)

// varying are the parts of a line that differ from run to run of the same programs.
var varying = []*regexp.Regexp{
	regexp.MustCompile(`^\[\d+\] (\d+)$`),                                             // process ids
	regexp.MustCompile(`^\$ kill -9 (\d+)`),                                           //
	regexp.MustCompile(`: outcomes after ([0-9a-z.]+)$`),                              // durations
	regexp.MustCompile(`^ +(\d+) intents had ever been stored when the audit began$`), // how far the worker was when it was killed
	regexp.MustCompile(`^ +(\d+) of them are settled$`),
	regexp.MustCompile(`^ +(\d+) wait or are being worked on$`),
}

// masked replaces what varies. The last audit does not: it says that all are settled.
func masked(lines []string) []string {
	lines = slices.Clone(lines)
	last := slices.Index(lines, "$ orderpost audit")
	for i, text := range lines {
		if last >= 0 && i > last {
			break
		}
		for _, v := range varying {
			if at := v.FindStringSubmatchIndex(text); at != nil {
				text = strings.TrimLeft(text[:at[2]], " ") + "…" + text[at[3]:]
			}
		}
		lines[i] = text
	}
	return lines
}

// redrawn returns the picture of a new run. Where that run differs from the committed
// picture only in what varies, the committed numbers stay: they are of a real run, too,
// and the bytes are the same.
func redrawn(committed []byte, lines []string) []byte {
	if before := shown(committed); slices.Equal(masked(before), masked(lines)) {
		return draw(before)
	}
	return draw(lines)
}

// shown returns the lines of a picture; nil if it is none.
func shown(picture []byte) []string {
	var svg struct {
		Lines string `xml:"desc"`
	}
	if err := xml.Unmarshal(picture, &svg); err != nil {
		return nil
	}
	return strings.Split(svg.Lines, "\n")
}
