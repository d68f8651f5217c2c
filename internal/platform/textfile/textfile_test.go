package textfile

import (
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// TestByteOrderMarks: editors on Windows save text with a mark, as UTF-8 or as UTF-16.
func TestByteOrderMarks(t *testing.T) {
	const text = "a: ü\n"
	little, big := []byte{0xff, 0xfe}, []byte{0xfe, 0xff}
	for _, u := range utf16.Encode([]rune(text)) {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	for _, saved := range []string{text, "\ufeff" + text, string(little), string(big)} {
		require.Equal(t, text, string(Decode([]byte(saved))))
	}
	require.Equal(t, "a: \xfc\n", string(Decode([]byte("a: \xfc\n"))), "without a mark nothing changes")
}

type settings struct {
	Name  string            `yaml:"name"`
	Rate  int               `yaml:"rate"`
	On    bool              `yaml:"on"`
	Words []string          `yaml:"words,omitempty"`
	Set   map[string]string `yaml:"set"`
	Parts []part            `yaml:"parts"`
}

type part struct {
	Text string `yaml:"text"`
}

// TestTextIsWhatTheFileHas: YAML reads a value without quotes as a number, a truth value, a date
// or nothing where it can, and a text must not change by that.
func TestTextIsWhatTheFileHas(t *testing.T) {
	for _, word := range []string{"01067", "1.10", "+49301234", "0x1F", "0o17", "0b11", "1_000", "1e3", "1E400", ".5", "5.", "-0", "007", "99999999999999999999", "true", "True",
		"FALSE", "yes", "off", ".inf", "-.Inf", ".nan", ".NaN", "2026-01-31", "12:30:00", "1:20", "<<x"} {
		var got settings
		text := "name: " + word + " # a comment\nrate: 0x10\non: true\nwords: [" + word + ", x]\nset:\n  a: " + word + "\n  " + word + ": b\nparts:\n- text: " + word + "\n- text: &x " + word + "\n- text: *x\n- text: !!str " + word + "\n"
		require.NoError(t, Unmarshal([]byte(text), &got), text)
		require.Equal(t, settings{Name: word, Rate: 16, On: true, Words: []string{word, "x"}, Set: map[string]string{"a": word, word: "b"}, Parts: []part{{word}, {word}, {word}, {word}}}, got)
	}
	var got settings
	require.NoError(t, Unmarshal([]byte("\ufeffname: null\nwords:\nset:\n  null: \"null\"\n  a: '~'\n  b: |-\n    01\n    y\n  c: \"1\\t\"\n"), &got))
	require.Equal(t, settings{Name: "null", Set: map[string]string{"null": "null", "a": "~", "b": "01\ny", "c": "1\t"}}, got)
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"set:\n  a: null\n":            `[2:6] a text is missing here: write "" for an empty one, or put the word into quotes ("null")`,
		"set:\n  a: ~\n":               "[2:6] a text is missing here",
		"set:\n  a:\n  b: c\n":         "a text is missing here",
		"words: [a, Null]\n":           "[1:12] a text is missing here",
		"name: ~\n":                    "[1:7] a text is missing here",
		"name: !!int 5\n":              "the tag !!int is not read here",
		"name: a\n---\nname: b\n":      "[3:5] a second YAML document begins here",
		"name: a\n---\n- b\n":          "a second YAML document begins here",
		"# x\nname: a\n...\nrate: 1\n": "a second YAML document begins here",
		"name: a\nset: {b: K\xf6ln}\n": "[2:1] byte 0xF6 is not UTF-8; save the file as UTF-8",
		"nam: a\n":                     `unknown field "nam"`,
		"set: {a: 1, a: 2}\n":          "already defined",
		"set: {01: a, \"01\": b}\n":    "already defined",
		"set: {a: {b: c}}\n":           "cannot unmarshal",
		"name: [a]\n":                  "cannot unmarshal",
		"rate: soon\n":                 "cannot unmarshal",
	} {
		var got settings
		require.ErrorContains(t, Unmarshal([]byte(text), &got), want, text)
	}
	for _, text := range []string{"", "# nothing\n", "---\n# x\n", "name: a\n---\n# the end\n", "---\nname: a\n"} {
		var got settings
		require.NoError(t, Unmarshal([]byte(text), &got), text)
	}
}
