package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// Duplicates says what happens to an order_no that was created before.
type Duplicates uint8

// The ways to treat a repeated order_no.
const (
	// RefuseDuplicates answers 409; nothing is created.
	RefuseDuplicates Duplicates = iota
	// ReturnOriginal answers 200 with the original order where the body is the
	// same apart from its timestamp, else 409.
	ReturnOriginal
	// CreateTwice creates the order again.
	CreateTwice
)

// Manner is the style of answers to failures.
type Manner uint8

// The manners, as seen at APIs of this kind.
const (
	// MannerStatus uses HTTP status codes with {"code":..,"error":..,"message":..}.
	MannerStatus Manner = iota
	// MannerCode always uses HTTP 200, with {"code":..,"message":..,"data":..}.
	MannerCode
	// MannerErrno always uses HTTP 200, with {"errno":..,"message":..}.
	MannerErrno
	// MannerFields uses HTTP 400 with {"<field>":["<message>"]}.
	MannerFields
)

// Down says whether and how the API is unreachable.
type Down uint8

// The kinds of outage.
const (
	// Up is no outage.
	Up Down = iota
	// DropAll closes the connection of every request without an answer.
	DropAll
	// RefuseAll stops listening: the kernel refuses connections. It requires Start.
	// Behind another listener it acts like DropAll.
	RefuseAll
)

// RetryAfterForm is the form of the Retry-After header of a 429.
type RetryAfterForm uint8

// The forms of Retry-After.
const (
	RetryAfterSeconds RetryAfterForm = iota
	RetryAfterDate
	RetryAfterNone
)

// GarbageForm is the form of a garbage answer's body.
type GarbageForm uint8

// The kinds of garbage.
const (
	// GarbageMixed is one of the bounded forms, drawn for each attempt.
	GarbageMixed GarbageForm = iota
	GarbageHTML
	GarbageTruncated
	GarbageEmpty
	GarbageBinary
	// GarbageGzipBomb is gzip of a gigabyte of zeros, in a megabyte.
	GarbageGzipBomb
	// GarbageEndless is endless, at full speed. It stops when the client disconnects or
	// the server closes.
	GarbageEndless
	// GarbageDrip is endless, too, and comes byte by byte.
	GarbageDrip
)

var (
	duplicatesWords = []string{"refuse", "return", "create-twice"}
	mannerWords     = []string{"status", "code", "errno", "fields"}
	downWords       = []string{"up", "drop", "refuse"}
	retryWords      = []string{"seconds", "date", "none"}
	garbageWords    = []string{"mixed", "html", "truncated", "empty", "binary", "gzip-bomb", "endless", "drip"}
)

func (v Duplicates) String() string     { return wordAt(duplicatesWords, int(v)) }
func (v Manner) String() string         { return wordAt(mannerWords, int(v)) }
func (v Down) String() string           { return wordAt(downWords, int(v)) }
func (v RetryAfterForm) String() string { return wordAt(retryWords, int(v)) }
func (v GarbageForm) String() string    { return wordAt(garbageWords, int(v)) }

func wordAt(words []string, i int) string {
	if i >= len(words) {
		return fmt.Sprintf("out-of-range(%d)", i)
	}
	return words[i]
}

// word is a value of a closed set.
type word interface {
	value
	known() bool
	number() int
}

// wordValue implements value for the types above.
type wordValue[T ~uint8] struct {
	words []string
	at    *T
}

func (v wordValue[T]) String() string { return wordAt(v.words, int(*v.at)) }
func (v wordValue[T]) Type() string   { return "word" }
func (v wordValue[T]) known() bool    { return int(*v.at) < len(v.words) }
func (v wordValue[T]) number() int    { return int(*v.at) }

func (v wordValue[T]) Set(s string) error {
	i := slices.Index(v.words, s)
	if i < 0 {
		return fmt.Errorf("%q is none of %s", s, strings.Join(v.words, ", "))
	}
	*v.at = T(i)
	return nil
}
