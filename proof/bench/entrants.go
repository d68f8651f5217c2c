package bench

import (
	"fmt"
	"slices"
	"strings"
)

// The contenders, by the names that stand in the tables.
const (
	usual         = "usual worker, outcomes stored"
	ours          = "orderpost"
	servers       = "orderpost, servers"
	riverPostgres = "River on Postgres"
	riverSQLite   = "River on SQLite"
	asynqRedis    = "asynq on Redis"
)

type entrant struct{ word, name string }

// entrants are the contenders by the words of --contenders, in the order in
// which a round runs them.
var entrants = []entrant{{"usual", usual}, {"ours", ours}, {"servers", servers}, {"river-postgres", riverPostgres}, {"river-sqlite", riverSQLite}, {"asynq", asynqRedis}}

func entrantWords() (words []string) {
	for _, e := range entrants {
		words = append(words, e.word)
	}
	return words
}

// entered are those of the names that --contenders lets in.
func (o *options) entered(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(entrants, func(e entrant) bool {
			return e.name == name && slices.Contains(o.contenders, e.word)
		})
	})
}

func (o *options) validateContenders() (errs []error) {
	for _, word := range o.contenders {
		if !slices.Contains(entrantWords(), word) {
			errs = append(errs, fmt.Errorf("--contenders: %q is none of %s", word, strings.Join(entrantWords(), ", ")))
		}
	}
	return errs
}
