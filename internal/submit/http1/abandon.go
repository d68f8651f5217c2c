package http1

import (
	"context"
	"time"
)

// Abandon sends one signed order on a new connection and closes it without reading the answer, as a client does whose
// network fails at that moment. nil means that the whole request was handed to the operating system.
func (c *Client) Abandon(ctx context.Context, o Order) error {
	until := time.Now().Add(c.cfg.RequestTimeout)
	conn, err := c.dialer.dial(ctx, until)
	if err != nil {
		return normalizeError(ctx, err)
	}
	defer conn.abort()
	text, err := (&request{Order: o, head: c.orderHead, post: true}).append(nil)
	if err == nil {
		err = conn.Conn.SetDeadline(until)
	}
	if err == nil {
		_, err = conn.Conn.Write(text)
	}
	return err
}
