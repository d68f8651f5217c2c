package order

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxWait is how far ahead of the present time an order may be scheduled. A
// later time is usually a mistyped year.
const MaxWait = 366 * 24 * time.Hour

// pastAllowed is how late a person may be with a time that means "now".
const pastAllowed = time.Minute

// LongPast reports whether a time was over more than a minute before now. A person who
// gives such a time has probably mistyped it. A program may be late.
func LongPast(at, now time.Time) bool { return !at.IsZero() && now.Sub(at) > pastAllowed }

// MissedDeadline says why an order with a deadline could not be sent any more; "" = it could.
// notBefore is the time before which it is not sent. Either may be zero.
func MissedDeadline(deadline, notBefore, now time.Time) string {
	at := deadline.UTC().Format(time.RFC3339)
	switch {
	case deadline.IsZero():
		return ""
	case !deadline.After(now):
		return fmt.Sprintf("%s was %s ago, so every order would expire", at, now.Sub(deadline).Round(time.Second))
	case !deadline.After(notBefore):
		return fmt.Sprintf("%s is not later than %s, before which nothing is sent, so every order would expire", at, notBefore.UTC().Format(time.RFC3339))
	default:
		return ""
	}
}

// notBeforeLayouts are the accepted forms of RFC 3339. Seconds may be missing.
var notBeforeLayouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00"}

// zoneless are forms that name no moment.
var zoneless = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// noColon are forms whose offset has no colon.
var noColon = []string{"2006-01-02T15:04:05-0700", "2006-01-02T15:04-0700", "2006-01-02T15:04:05-07", "2006-01-02T15:04-07"}

// blankForT are forms with a blank in place of the T.
var blankForT = []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"}

// ParseNotBefore reads the time before which an order must not be sent. The
// zone is required: without it, one text names two moments on the day on which
// clocks go back, and a moment that does not exist on the day on which they go
// forward. A time in the past is valid and means "now". The error says what to
// write instead.
func ParseNotBefore(text string, now time.Time) (time.Time, error) {
	for _, layout := range notBeforeLayouts {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if at.Sub(now) > MaxWait {
			return time.Time{}, fmt.Errorf("%q is more than a year ahead", text)
		}
		return at.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q %s", Clip(text, maxSeen), notATime(text))
}

// notATime says what is wrong with a text that is not a time.
func notATime(text string) string {
	const example = "2026-11-23T08:00:00+01:00"
	if trimmed := strings.TrimSpace(text); trimmed != text && trimmed != "" {
		return "has a blank before or after the time; remove it"
	}
	for _, layout := range zoneless {
		if _, err := time.Parse(layout, text); err == nil {
			return "has no zone; add Z or an offset, such as " + example
		}
	}
	for _, layout := range noColon {
		if at, err := time.Parse(layout, text); err == nil {
			return "has an offset without a colon; write " + at.Format(time.RFC3339)
		}
	}
	for _, layout := range blankForT {
		if _, err := time.Parse(layout, text); err == nil {
			return "has a blank between date and time; write T there, such as " + example
		}
	}
	for _, layout := range slices.Concat(notBeforeLayouts, zoneless, noColon, blankForT) {
		_, err := time.Parse(layout, text)
		var bad *time.ParseError
		if errors.As(err, &bad) && strings.HasSuffix(bad.Message, "out of range") {
			return "names a time that does not exist" + bad.Message // ": day out of range"
		}
	}
	return "is not an RFC 3339 time such as " + example
}
