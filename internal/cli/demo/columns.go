package demo

import "github.com/spf13/pflag"

// registerColumns adds the flags of enqueue that say what the columns of a file mean.
// The function that it returns gives those that were set, for enqueue.
func registerColumns(f *pflag.FlagSet) func() []string {
	usage := []struct{ name, usage string }{
		{"type", "`NAME=TYPE` of a field, as in orderpost enqueue (repeatable)"},
		{"rename", "`COLUMN=NAME`: the field's name of a column (repeatable)"},
		{"set", "`NAME=VALUE`: a field that every order has (repeatable)"},
		{"accept", "`NAME=CODE`: cells that the check asks about are right (repeatable)"},
		{"order-no-template", "`text` with {batch} and {row} that makes order numbers"},
	}
	given := make([][]string, len(usage))
	for i, u := range usage {
		f.StringArrayVar(&given[i], u.name, nil, u.usage)
	}
	return func() (args []string) {
		for i, u := range usage {
			for _, value := range given[i] {
				args = append(args, "--"+u.name+"="+value)
			}
		}
		return args
	}
}
