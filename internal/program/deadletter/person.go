package deadletter

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"orderpost/internal/settle"
)

// person holds the flags about the person who decides.
type person struct{ name, note string }

func (p *person) register(flags *pflag.FlagSet, environ map[string]string) {
	name := environ["USER"]
	for _, variable := range []string{"LOGNAME", "USERNAME"} {
		if name == "" {
			name = environ[variable]
		}
	}
	flags.StringVar(&p.name, "by", name, "your name, for the record")
	flags.StringVar(&p.note, "note", "", "why, for the record")
}

func (p *person) read() (settle.Person, error) {
	if strings.TrimSpace(p.name) == "" {
		return settle.Person{}, errors.New("--by: your name is needed for the record")
	}
	return settle.Person{Name: p.name, Note: p.note}, nil
}
