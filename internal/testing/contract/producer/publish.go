package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// What a publish can come to. Only Stored, StoredBefore and SettledBefore mean
// that this submission is in orderpost's hands.
const (
	Stored        = "stored"          // in the stream
	StoredBefore  = "stored before"   // an earlier publish with this id is waiting
	SettledBefore = "settled before"  // an earlier publish with this id has its outcome
	OtherPending  = "already pending" // another submission for this order_no is waiting; this one was not stored
	IDTaken       = "id taken"        // the id belongs to something else or to nothing; not stored, use another id
	Full          = "full"            // the broker takes no more for now; not stored
)

const (
	codeStoreFailed     = 10077 // "pending already" and "full" share it: the text tells
	codeInsufficient    = 10023
	codeStorageExceeded = 10047
	textPending         = "maximum messages per subject exceeded"
)

// tries and pause bound how often an unanswered or unexplained publish is
// repeated, always with the same id.
const (
	tries = 20
	pause = 250 * time.Millisecond
)

// Publish submits one order. id names this submission: keep it with the order
// in your database before you publish, and use it again when you are not sure
// whether a publish arrived.
func Publish(ctx context.Context, nc *nats.Conn, body []byte, id string) (string, error) {
	var order struct {
		OrderNo string `json:"order_no"`
	}
	if err := json.Unmarshal(body, &order); err != nil {
		return "", fmt.Errorf("body: %w", err)
	}
	token, err := Token(order.OrderNo)
	if err != nil {
		return "", err
	}
	last := errors.New("no try was made")
	for range tries {
		word, err := publishOnce(ctx, nc, token, body, id)
		var refused *apiError
		if word != "" || errors.As(err, &refused) {
			return word, err
		}
		last = err
		select {
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), last)
		case <-time.After(pause):
		}
	}
	return "", last
}

// publishOnce gives "" where the same publish is to be repeated: no answer
// came, or the one that came is already out of date.
func publishOnce(ctx context.Context, nc *nats.Conn, token string, body []byte, id string) (string, error) {
	msg := nats.NewMsg("orders.new." + token)
	msg.Data = body
	msg.Header.Set("Nats-Msg-Id", id)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return "", fmt.Errorf("no answer, so nobody knows whether it was stored: %w", err)
	}
	var ack struct {
		Error     *apiError `json:"error"`
		Sequence  uint64    `json:"seq"`
		Duplicate bool      `json:"duplicate"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return "", fmt.Errorf("the broker's answer: %w", err)
	}
	switch e := ack.Error; {
	case e == nil && !ack.Duplicate:
		return Stored, nil
	case e == nil:
		return afterDuplicate(ctx, nc, token, id, ack.Sequence)
	case e.Code == codeStoreFailed && strings.Contains(e.Description, textPending):
		return afterPending(ctx, nc, token)
	case e.Code == codeStoreFailed, e.Code == codeInsufficient, e.Code == codeStorageExceeded:
		return Full, nil
	default:
		return "", e
	}
}

// afterPending: with replicas the place of an order that was just settled can
// count as taken for a moment. Where nothing is pending, publish again.
func afterPending(ctx context.Context, nc *nats.Conn, token string) (string, error) {
	waiting, err := getMessage(ctx, nc, "ORDERS", map[string]any{"last_by_subj": "orders.new." + token})
	if err != nil {
		return "", err
	}
	if waiting == nil {
		return "", errors.New("refused as pending, although nothing is")
	}
	return OtherPending, nil
}

// afterDuplicate: the broker remembers the id and stored nothing. Look up what
// became of the message that it remembers: the pending one first, then the
// result, since a result is written before its message goes.
func afterDuplicate(ctx context.Context, nc *nats.Conn, token, id string, seq uint64) (string, error) {
	twin, err := getMessage(ctx, nc, "ORDERS", map[string]any{"seq": seq})
	switch {
	case err != nil:
		return "", err
	case twin != nil && twin.Subject == "orders.new."+token:
		return StoredBefore, nil
	case twin != nil:
		return IDTaken, nil
	}
	result, err := ReadResult(ctx, nc, token)
	switch {
	case err != nil:
		return "", err
	case result != nil:
		if mine := result.Of(id); mine != nil && mine.Settled() {
			return SettledBefore, nil
		}
	}
	return IDTaken, nil
}
