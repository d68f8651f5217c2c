// Package schema holds the JSON Schemas of the files that users write, of the
// messages in the streams, and of what the commands print with --json.
package schema

import (
	"embed"
	"encoding/json"
	"io/fs"
	"strings"
)

//go:embed *.json
var files embed.FS

// Names lists the schemas, sorted.
func Names() []string {
	found, _ := fs.Glob(files, "*.json") // the pattern is right
	for i, name := range found {
		found[i] = strings.TrimSuffix(name, ".json")
	}
	return found
}

// Text is the schema of that name. It fails with [fs.ErrNotExist].
func Text(name string) (string, error) {
	text, err := files.ReadFile(name + ".json")
	return string(text), err
}

// Title says in a line what a schema describes; "" where there is none of that
// name.
func Title(name string) string {
	var s struct {
		Title string `json:"title"`
	}
	text, _ := Text(name)
	_ = json.Unmarshal([]byte(text), &s)
	return s.Title
}
