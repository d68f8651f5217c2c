// Package textfile reads the files of settings that people edit: textfile.go in the encoding in
// which their editor saved them, yaml.go those in YAML.
package textfile

import (
	"os"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Read reads a file as [Decode] does.
func Read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(text), nil
}

// Decode returns a text without its byte order mark, with which editors on Windows save files.
// It converts UTF-16 with a mark to UTF-8.
func Decode(text []byte) []byte {
	decoded, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), text)
	if err != nil { // whoever parses the text says what is wrong with it
		return text
	}
	return decoded
}
