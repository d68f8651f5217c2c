package console

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
)

// settingsOf reads the columns' form. The error is a problem with status 409 if the form is
// about other columns than the file has.
func settingsOf(v *visit, u *uploads.Look) (importer.Reading, error) {
	var c importer.Choices
	err := takeOptions(v, &c, "type", "set") // which have fields of their own, as the names of columns do
	if err == nil {
		err = takeConstants(v, &c)
	}
	set := c.Reading
	set.Edits = u.Settings.Edits
	if err != nil {
		return set, err
	}
	if set.Mapping.Empty == importer.EmptyString {
		set.Mapping.Empty = ""
	}
	if set.HeaderRow != u.Settings.HeaderRow { // the form is about other columns than the file has now
		h, err := v.s.desk.HeadAt(u.ID, set.Sheet, set.HeaderRow, samples)
		if err != nil {
			return set, nil //nolint:nilerr // Arrange says what is wrong
		}
		maps.DeleteFunc(set.Mapping.Set, func(name, _ string) bool {
			return slices.ContainsFunc(h.Columns, func(c importer.Column) bool { return c.Field == name })
		})
		set.Mapping.Accept = nil
		set.Mapping = h.Propose().Merge(set.Mapping)
		return set, nil
	}
	// The header is read by the encoding and delimiter of before: they decide which
	// columns the form showed. It showed none of a file whose first rows cannot be read.
	h, err := v.s.desk.HeadAt(u.ID, set.Sheet, 0, samples)
	if err != nil {
		return set, nil //nolint:nilerr // Arrange reads the file as it is set now, and says what is wrong
	}
	names := v.PostForm["column"]
	same := len(names) == len(h.Columns)
	for i := range h.Columns {
		same = same && lines(names[i]) == lines(h.Columns[i].Name)
	}
	if !same {
		return set, stale("The columns of the file are not those that your form is about, so what you said of them would be lost.")
	}
	if len(names) > 0 {
		var kinds []importer.Type
		for _, kind := range v.PostForm["type"] {
			kinds = append(kinds, importer.Type(kind))
		}
		set.Mapping = h.Arrange(set.Mapping, v.PostForm["field"], kinds)
	}
	return set, nil
}

// takeOptions takes options of an import, but some, from a form whose fields have their names. A field without
// a value says nothing. Times are UTC.
func takeOptions(v *visit, c *importer.Choices, but ...string) error {
	c.Now = time.Now()
	for _, option := range importer.AllOptions() {
		name := option.Name
		for _, value := range v.PostForm[name] {
			value = strings.TrimSpace(value)
			switch {
			case value == "", slices.Contains(but, name):
				continue
			case value == "on":
				value = "true"
			case name == "deadline", name == "not-before":
				value += ":00Z" // an input of the type datetime-local has neither seconds nor a zone
			}
			if err := c.Set(name, value); err != nil {
				return optionProblem(err)
			}
		}
	}
	return nil
}

// optionProblem makes a page of what is wrong with an option; nil stays nil.
func optionProblem(err error) error {
	wrong, ok := errors.AsType[*importer.OptionError](err)
	if !ok {
		return err
	}
	what := strings.ReplaceAll(wrong.Name, "-", " ")
	return badRequest(sentence(strings.ToUpper(what[:1])+what[1:]+": "+wrong.Seen)+" Nothing was imported.", "Go back and change it, or leave it out.")
}

// writeConstants writes constant fields, one name=value a line.
func writeConstants(set map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(name + "=" + set[name] + "\n")
	}
	return b.String()
}

// takeConstants takes constant fields as writeConstants writes them.
func takeConstants(v *visit, c *importer.Choices) error {
	for line := range strings.Lines(v.PostFormValue("set")) {
		name, value, given := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if line = strings.TrimSpace(name); given {
			line += "=" + value
		}
		if line == "" {
			continue
		}
		if err := c.Set("set", line); err != nil {
			return optionProblem(err)
		}
	}
	return nil
}

// loadMapping sets the columns as a file says that this page or enqueue has saved, and checks again. The file comes as
// the form's file, or as its text.
func loadMapping(v *visit, u *uploads.Look) error {
	name, from := "mapping", io.Reader(strings.NewReader(v.PostFormValue("text")))
	if file, header, err := v.FormFile("file"); err == nil {
		defer func() { _ = file.Close() }()
		name, from = header.Filename, file
	}
	set := u.Settings
	var err error
	if set.Mapping, err = importer.ReadMapping(name, from); err == nil {
		err = set.Mapping.Validate()
	}
	if err != nil {
		return &problem{status: http.StatusUnprocessableEntity, what: sentence("The columns cannot be read: "+err.Error()) + " Nothing was changed.", todo: "Choose a file that Save the columns for enqueue has written, or correct this one.", cause: err}
	}
	return checkAgain(v, u.ID, set)
}
