// Package docs holds the documents that the program carries: `orderpost help runbook`
// prints one where nobody has a clone.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.md
var files embed.FS

// OpenAPI describes the HTTP door (orderpost gateway) for machines, in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Names lists the documents without their ending, sorted. The index is none of them.
func Names() []string {
	found, _ := fs.Glob(files, "*.md") // the pattern is right
	found = slices.DeleteFunc(found, func(name string) bool { return name == "README.md" })
	for i, name := range found {
		found[i] = strings.TrimSuffix(name, ".md")
	}
	return found
}

// blockOrHeading finds code blocks and headings. A block is found as a whole, because a comment of
// a shell begins as a heading does.
var blockOrHeading = regexp.MustCompile("(?m)^```(?s:.*?)\n```|^(#+) +(.+)$")

// heading is one of a document's headings.
type heading struct {
	at    int // where it begins
	level int // how many # it has
	title string
}

// headings returns the headings of a document in their order.
func headings(text string) (all []heading) {
	for _, m := range blockOrHeading.FindAllStringSubmatchIndex(text, -1) {
		if m[2] >= 0 {
			all = append(all, heading{at: m[0], level: m[3] - m[2], title: text[m[4]:m[5]]})
		}
	}
	return all
}

// Sections lists the titles of a document's sections; nil if there is no such document.
func Sections(name string) (titles []string) {
	text, _ := files.ReadFile(strings.TrimSuffix(name, ".md") + ".md")
	for i, h := range headings(string(text)) {
		if i > 0 { // the first one is the document's own title
			titles = append(titles, h.title)
		}
	}
	return titles
}

// Text returns a document, or the section whose title is, begins with, or contains the
// given one, in upper or lower case; "" stands for the whole document. An error names the
// documents or the sections that there are.
func Text(name, section string) (string, error) {
	body, err := files.ReadFile(strings.TrimSuffix(name, ".md") + ".md")
	if err != nil {
		return "", fmt.Errorf("there is no command and no document %q; the documents are %s", name, strings.Join(Names(), ", "))
	}
	text := string(body)
	if section == "" {
		return text, nil
	}
	all := headings(text)
	wanted := strings.ToLower(strings.TrimPrefix(section, "#"))
	for _, fits := range []func(string, string) bool{func(a, b string) bool { return a == b }, strings.HasPrefix, strings.Contains} {
		i := slices.IndexFunc(all, func(h heading) bool { return fits(strings.ToLower(h.title), wanted) })
		if i < 0 {
			continue
		}
		end := len(text)
		for _, next := range all[i+1:] {
			if next.level <= all[i].level { // as many # or fewer: the section ends
				end = next.at
				break
			}
		}
		return strings.TrimRight(text[all[i].at:end], "\n") + "\n", nil
	}
	return "", fmt.Errorf("%s has no section %q; its sections are: %s", name, section, strings.Join(Sections(name), "; "))
}
