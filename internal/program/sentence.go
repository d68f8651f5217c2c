package program

import "strings"

// Sentence makes a sentence of a text that begins in lower case, as errors do.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
