package program

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A speller replaces the names of commands in texts by the form in which the user
// starts them. Texts name the commands of the separate programs ("worker hold"). With
// orderpost the same command is "orderpost hold", or "orderpost worker hold" if it is
// no command of the root.
type speller struct {
	root  string
	forms map[string]string // by "worker hold" and the like
	named *regexp.Regexp    // finds the keys of forms
}

// joinable lists the programs that another one may contain.
var joinable = []string{"worker", "enqueue", "deadletter"}

// newSpeller returns nil if the root contains none of the programs. Texts then need no
// change.
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
			if top := Twin(root, sub); top != nil {
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

// Twin returns the command of the root that does the same as a command of a program
// that the root contains; nil if there is none. The same name is not enough: one may
// resume the fleet, and the other an import.
func Twin(root, sub *cobra.Command) *cobra.Command {
	for _, top := range root.Commands() {
		if top.Name() == sub.Name() && top.Short == sub.Short {
			return top
		}
	}
	return nil
}

// text replaces the commands in a text.
func (s *speller) text(text string) string {
	if s == nil {
		return text
	}
	return s.named.ReplaceAllStringFunc(text, func(found string) string {
		if form, short := s.forms[found]; short {
			return form
		}
		return found // this is the full form already
	})
}

// inFront finds a program's name where a shell would start it: at the beginning of a
// line, after a pipe, or after variables.
var inFront = regexp.MustCompile(`(?m)((?:^ *|\| |[A-Z_]+=\S+ ))(` + strings.Join(joinable, "|") + `)\b`)

// commands replaces the commands in the help of a command and its subcommands.
func (s *speller) commands(cmd *cobra.Command) {
	if s == nil {
		return
	}
	cmd.Short, cmd.Long = s.text(cmd.Short), s.text(cmd.Long)
	cmd.Example = inFront.ReplaceAllString(s.text(cmd.Example), "${1}"+s.root+" $2")
	if first, more, found := strings.Cut(cmd.Use, "| "); found && slices.Contains(joinable, firstWord(more)) {
		cmd.Use = first + "| " + s.root + " " + more
	}
	for _, sub := range cmd.Commands() {
		s.commands(sub)
	}
}

// firstWord returns a text up to its first space.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

type spellerKey struct{}

// Spell replaces the commands in a text, such as "worker hold", by the form in which
// the user started the program. ctx is the context of its command.
func Spell(ctx context.Context, text string) string {
	s, _ := ctx.Value(spellerKey{}).(*speller)
	return s.text(text)
}
