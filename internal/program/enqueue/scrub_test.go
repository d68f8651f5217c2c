package enqueue

import "regexp"

var (
	someTime = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z`)
	someTerm = regexp.MustCompile(`after [0-9.]+(ms|s)`)
	somePath = regexp.MustCompile(`[^ "]*/examples/import/`)
)

// scrub takes out of a transcript what differs from run to run.
func scrub(text string) string {
	text = someTime.ReplaceAllString(text, "TIME")
	text = someTerm.ReplaceAllString(text, "after SOME TIME")
	return somePath.ReplaceAllString(text, "EXAMPLES/")
}
