package program

import (
	"context"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// A speller puts the commands that texts name into the form in which the reader
// starts them. Texts are written for the programs by themselves ("worker
// hold"). Below orderpost the same command is "orderpost hold", or "orderpost
// worker hold" where it does not stand at the top.
type speller struct {
	root  string
	forms map[string]string // of "worker hold" and the like
	named *regexp.Regexp    // finds the keys of forms
}

// joinable are the programs that another one may contain.
var joinable = []string{"worker", "enqueue", "deadletter"}

// newSpeller is nil where the root contains none of the programs: then texts
// are right as they are.
func newSpeller(root *cobra.Command) *speller {
	s := &speller{root: root.Name(), forms: make(map[string]string)}
	var words []string
	for _, name := range joinable {
		p, _, err := root.Find([]string{name})
		if err != nil || p == root || p.Name() != name {
			continue
		}
		for _, sub := range p.Commands() {
			path := sub.CommandPath()
			if top, _, err := root.Find([]string{sub.Name()}); err == nil && top != root {
				path = top.CommandPath()
			}
			s.forms[name+" "+sub.Name()] = path
			words = append(words, name+" "+sub.Name())
		}
		s.forms["cmd/"+name] = p.CommandPath()
		words = append(words, "cmd/"+name)
	}
	if len(words) == 0 {
		return nil
	}
	s.named = regexp.MustCompile(`\b(` + regexp.QuoteMeta(s.root) + ` )?(` + strings.Join(words, "|") + `)\b`)
	return s
}

// text spells the commands in a text.
func (s *speller) text(text string) string {
	if s == nil {
		return text
	}
	return s.named.ReplaceAllStringFunc(text, func(found string) string {
		if form, short := s.forms[found]; short {
			return form
		}
		return found // as it is started already
	})
}

// inFront finds a program's name where a shell would start it: at the beginning
// of a line, behind a pipe, or behind variables.
var inFront = regexp.MustCompile(`(?m)((?:^ *|\| |[A-Z_]+=\S+ ))(` + strings.Join(joinable, "|") + `)\b`)

// commands spells the examples and the use of a command and of those below it.
func (s *speller) commands(cmd *cobra.Command) {
	if s == nil {
		return
	}
	cmd.Short, cmd.Long = s.text(cmd.Short), s.text(cmd.Long)
	cmd.Example = inFront.ReplaceAllString(s.text(cmd.Example), "${1}"+s.root+" $2")
	if first, more, found := strings.Cut(cmd.Use, "| "); found {
		cmd.Use = first + "| " + s.root + " " + more
	}
	for _, sub := range cmd.Commands() {
		s.commands(sub)
	}
}

type spellerKey struct{}

// Spell puts the commands that a text names, as in "worker hold", into the form
// in which the program was started whose command has this context.
func Spell(ctx context.Context, text string) string {
	s, _ := ctx.Value(spellerKey{}).(*speller)
	return s.text(text)
}
