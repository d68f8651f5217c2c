package settle

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// NoImport is the token of intents that belong to no import.
const NoImport = "-"

// ImportToken returns the token under which the intents of an import wait.
func ImportToken(batch string) string {
	if batch == "" {
		return NoImport
	}
	return order.Token(batch)
}

// WaitingMinute returns the tokens of the minute of at.
func WaitingMinute(at time.Time) string { return at.UTC().Format("20060102.1504") }

// waitingSecond returns the tokens of the first full second from at on.
func waitingSecond(at time.Time) string {
	return at.Add(time.Second - 1).UTC().Truncate(time.Second).Format("20060102.1504.05")
}

// WaitingTime reads the time from the tokens of a subject in the waiting room, joined
// by dots. ok is false for a time that does not exist or is more than a year ahead.
func WaitingTime(tokens string, now time.Time) (at time.Time, ok bool) {
	at, err := time.Parse("20060102.1504.05", tokens)
	return at, err == nil && at.Sub(now) <= order.MaxWait
}

// SplitWaiting reads a subject of the waiting room, without its prefix: lane, token of
// the import, and the tokens of its time for WaitingTime; "" = it names none. The stream
// takes subjects of two tokens and of six.
func SplitWaiting(subject string) (lane, batch, second string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 6 {
		return tokens[0], tokens[len(tokens)-1], ""
	}
	return tokens[4], tokens[5], strings.Join(tokens[1:4], ".")
}

// WaitingOrderNo returns the order number of a waiting message. The subject does
// not name it. A body that can never be sent goes to the workers all the same,
// who settle it as invalid: under its order_no if that can be read, otherwise
// under its sequence.
func WaitingOrderNo(m *Message) string {
	if parsed, err := order.Parse(m.Data); err == nil {
		return parsed.OrderNo()
	}
	var named struct {
		OrderNo string `json:"order_no"`
	}
	if json.Unmarshal(m.Data, &named) == nil && named.OrderNo != "" && len(named.OrderNo) <= order.MaxOrderNo {
		return named.OrderNo
	}
	return "waiting-" + strconv.FormatUint(m.Seq, 10)
}
