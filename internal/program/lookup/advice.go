package lookup

import (
	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// meaning says what an attempt did at the API.
func meaning(v order.Verdict) string {
	switch v {
	case order.Accepted:
		return "the API created the order"
	case order.Duplicate:
		return "the API says that it has this order_no already"
	case order.Rejected:
		return "the API refused the order; it was not created by this attempt"
	case order.Retry:
		return "certainly without effect"
	case order.Unsure:
		return "may have created the order"
	case order.Denied:
		return "the API refused the key and did not read the order"
	default:
		return ""
	}
}

// steps says what to do next.
func (f *Finding) steps() []books.Step {
	return books.Found{Entry: settle.Entry{Record: f.Result}, Letter: f.Letter, Pending: f.Pending}.Advice(f.OrderNo)
}
