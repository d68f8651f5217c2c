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

// heading finds the headings of a document.
var heading = regexp.MustCompile(`(?m)^(#+) +(.+)$`)

// Sections lists the titles of a document's sections; nil if there is no such document.
func Sections(name string) (titles []string) {
	text, _ := files.ReadFile(strings.TrimSuffix(name, ".md") + ".md")
	for i, m := range heading.FindAllSubmatch(text, -1) {
		if i > 0 { // the first one is the document's own title
			titles = append(titles, string(m[2]))
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
	all := heading.FindAllStringSubmatchIndex(text, -1)
	title := func(at []int) string { return strings.ToLower(text[at[4]:at[5]]) }
	wanted := strings.ToLower(strings.TrimPrefix(section, "#"))
	for _, fits := range []func(string, string) bool{func(a, b string) bool { return a == b }, strings.HasPrefix, strings.Contains} {
		i := slices.IndexFunc(all, func(at []int) bool { return fits(title(at), wanted) })
		if i < 0 {
			continue
		}
		end := len(text)
		for _, next := range all[i+1:] {
			if next[3]-next[2] <= all[i][3]-all[i][2] { // as many # or fewer: the section ends
				end = next[0]
				break
			}
		}
		return strings.TrimRight(text[all[i][0]:end], "\n") + "\n", nil
	}
	return "", fmt.Errorf("%s has no section %q; its sections are: %s", name, section, strings.Join(Sections(name), "; "))
}
