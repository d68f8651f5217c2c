package importer

import (
	"context"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// EachAccepted calls visit with the order of each good row of a checked file that the API
// accepted, by the results, with this very body. Without a queue it takes every good row.
func (f *File) EachAccepted(ctx context.Context, q *queue.Queue, visit func(*order.Order)) error {
	if q == nil {
		_, err := f.scan(ctx, func(rows []Row) error {
			for i := range rows {
				if f.problem(&rows[i]) == nil {
					visit(rows[i].Order)
				}
			}
			return nil
		})
		return err
	}
	return f.eachStatus(ctx, q, func(rows []Row, statuses []books.OrderStatus) error {
		for i := range rows {
			if rec := statuses[i].Record; rec.Outcome() == order.OutcomeAccepted && rec.BodyHash == rows[i].Order.BodyHash() {
				visit(rows[i].Order)
			}
		}
		return nil
	})
}
