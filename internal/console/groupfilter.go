package console

import (
	"net/url"
	"strings"

	"orderpost/internal/books"
)

// readFilter reads the filter of an address or a form, by the names of the flags of
// deadletter list.
func readFilter(values url.Values) books.LetterFilter {
	list := func(name string) (out []string) {
		for _, text := range values[name] {
			for _, word := range strings.Split(text, ",") {
				if word = strings.TrimSpace(word); word != "" {
					out = append(out, word)
				}
			}
		}
		return out
	}
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return books.LetterFilter{Outcomes: list("outcome"), Statuses: list("status"), Reason: text("reason"), Batch: text("batch"),
		OrderNo: values.Get("order-no"), Since: text("since"), Until: text("until")}
}

// filterFields is the reverse of readFilter.
func filterFields(f books.LetterFilter) url.Values {
	values := make(url.Values)
	set := func(name string, texts ...string) {
		for _, text := range texts {
			if text != "" {
				values.Add(name, text)
			}
		}
	}
	set("outcome", f.Outcomes...)
	set("status", f.Statuses...)
	set("reason", f.Reason)
	set("batch", f.Batch)
	set("order-no", f.OrderNo)
	set("since", f.Since)
	set("until", f.Until)
	return values
}
