package console

import (
	"fmt"
	"strings"
)

// confirmation is a page that says what an act will do before it does it. A GET
// shows it. Its form posts to the same path, and the act happens then.
//
//	c := &confirmation{…}
//	if ask, err := v.unconfirmed(c); ask {
//		return err
//	}
//	// the person has confirmed: act
type confirmation struct {
	// Title is the page's, such as "Hold the fleet".
	Title string
	// Says are sentences about what will happen.
	Says []string
	// Facts are what the act is about, such as the filter and the last sequence.
	Facts []fact
	// Warning is a sentence about what cannot be undone.
	Warning string
	// Fields go with the form, unseen.
	Fields []fact
	// Inputs are what the person still fills in.
	Inputs []input
	// Count must be typed as it is; 0 = no count. CountOf says what is counted.
	Count   int
	CountOf string
	// Button is the button's text.
	Button string
	Danger bool
	// Back is the page to go to without having done anything.
	Back string
	// Path is where the form goes. unconfirmed sets it if it is empty.
	Path string
	// Wrong says what is wrong with what was filled in.
	Wrong string
}

// input is one field of a confirmation.
type input struct {
	Name, Label, Hint string
	Value             string
	// Options make a list to choose from: value and text.
	Options []fact
	// Must says that it cannot stay empty.
	Must bool
	// Many makes room for several lines.
	Many bool
}

// noteInput is the field for a note. must says that it is required.
func noteInput(must bool) input {
	return input{Name: "note", Label: "Note", Hint: "Why, for the record. Your name and the time are recorded, too.", Must: must}
}

// maxNote bounds a note or a reason, in bytes.
const maxNote = 1000

// unconfirmed shows the confirmation if the person has not confirmed it yet, or not
// completely. ask is false if the act may happen.
func (v *visit) unconfirmed(c *confirmation) (ask bool, err error) {
	if c.Path == "" {
		c.Path = v.URL.Path
	}
	if v.Method != "POST" {
		for i := range c.Inputs {
			if given := v.query(c.Inputs[i].Name); given != "" {
				c.Inputs[i].Value = given
			}
		}
		return true, v.confirm(c)
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		in.Value = v.field(in.Name)
		switch {
		case in.Must && in.Value == "":
			c.Wrong = fmt.Sprintf("Nothing was done. Fill in the field %q first.", in.Label)
		case len(in.Value) > maxNote:
			c.Wrong = fmt.Sprintf("Nothing was done. The field %q takes %s bytes at most.", in.Label, count(maxNote))
		}
	}
	if typed := v.field("count"); c.Wrong == "" && c.Count > 0 && strings.ReplaceAll(typed, ",", "") != fmt.Sprint(c.Count) {
		c.Wrong = fmt.Sprintf("Nothing was done. You typed %q as the count, and it is %s.", shorten(typed, 20), count(c.Count))
	}
	if c.Wrong == "" {
		return false, nil
	}
	v.status = 422
	return true, v.confirm(c)
}

// confirm shows the confirmation.
func (v *visit) confirm(c *confirmation) error { return v.render("confirm", c.Title, c) }

// stale shows a problem: what the person decided on is not so any more.
func stale(what string) error {
	return &problem{status: 409, what: what + " Nothing was done.", todo: "Look at it again, and decide anew."}
}
