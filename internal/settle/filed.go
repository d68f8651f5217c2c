package settle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
)

// FileToken returns the token that records about a message are filed under: the
// message's own token if order.Token can produce it, otherwise a hash. A
// producer may publish to a subject with wildcard characters, and a lookup by
// such a subject would match other orders. A subject of 4,050 bytes or more
// makes the server close the connection (R4).
func FileToken(token string) string {
	if len(token) <= order.MaxToken && PlainToken(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// unlistedByte is the byte that nats-server's index of subjects refuses (2.15). The
// broker takes any number of intents under a subject with this byte, although it should
// take one.
const unlistedByte = 0x7f

// unlistedName returns the order_no under which an intent is refused whose subject the
// broker does not list. Each has one of its own: two of them under one order_no would be
// handled at the same time, and counted once (R11).
func unlistedName(token string, seq uint64, at time.Time) (name string, yes bool) {
	if strings.IndexByte(token, unlistedByte) < 0 {
		return "", false
	}
	return fmt.Sprintf("unlisted-%d-%d", seq, at.UnixNano()), true
}

// FiledToken returns the token that records about a stored intent are filed under.
func FiledToken(token string, seq uint64, at time.Time) string {
	if name, yes := unlistedName(token, seq, at); yes {
		return order.Token(name)
	}
	return FileToken(token)
}

// PlainToken reports whether order.Token can produce this token.
func PlainToken(token string) bool {
	for i := 0; i < len(token); i++ {
		c := token[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '%':
		default:
			return false
		}
	}
	return token != ""
}

// PlainSubject reports whether each token of a subject is a PlainToken.
func PlainSubject(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if !PlainToken(token) {
			return false
		}
	}
	return true
}

// TokenOf returns the token that records and letters about a name are filed
// under. The name is an order_no. If no such order is known, it may also be
// what a listing shows for a message whose subject belongs to no order_no: the
// end of that subject, or the token that its letter is filed under.
func (lg *Ledger) TokenOf(ctx context.Context, name string) (string, error) {
	token, odd := FileToken(order.Token(name)), FileToken(name)
	if token == odd {
		return token, nil
	}
	known, err := lg.hasRecord(ctx, token)
	if err != nil || known {
		return token, err
	}
	known, err = lg.hasRecord(ctx, odd)
	if err != nil || !known {
		return token, err
	}
	return odd, nil
}

// hasRecord reports whether a record is filed under this token, readable or
// not.
func (lg *Ledger) hasRecord(ctx context.Context, token string) (bool, error) {
	entry, err := lg.store.Record(ctx, token)
	if errors.Is(err, ErrUnreadable) {
		return true, nil
	}
	return entry.Record != nil, err
}

// Name returns the name by which commands find the letter.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == FileToken(order.Token(l.OrderNo)) || l.FiledUnder == FileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}

// Token returns the token that the letter is filed under.
func (l *Letter) Token() string {
	if l.FiledUnder != "" {
		return l.FiledUnder
	}
	return FileToken(order.Token(l.OrderNo))
}
