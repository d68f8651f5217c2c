package order

import (
	"maps"
	"slices"
)

// Codes lists every code of a refused body.
func Codes() []Code { return slices.Collect(maps.Keys(refusals)) }
