package sandbox

import (
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Hash is the SHA-256 of an order's canonical body without its timestamp.
type Hash [32]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("sandbox: a body hash has %d digits, not %d", hex.EncodedLen(len(h)), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Entry is the ledger's entry for one order_no.
type Entry struct {
	// Created is how many orders were created under it.
	Created int `json:"created"`
	// Attempts counts the properly signed requests for it.
	Attempts int `json:"attempts"`
	// Faults counts the attempts that met an injected fault.
	Faults int `json:"faults"`
	// Refused says that the server refused the order for good. If settings change, the
	// order may also have been created, before or after.
	Refused bool `json:"refused"`
	// FirstAt and LastAt are the times of the first and last creation.
	FirstAt time.Time `json:"first_at,omitzero"`
	LastAt  time.Time `json:"last_at,omitzero"`
	// BodyHash is the hash of the first creation. It is zero if nothing was created.
	BodyHash Hash `json:"body_hash"`
}

// Ledger is a snapshot of the counters.
type Ledger struct {
	StartedAt time.Time `json:"started_at"`
	// Requests counts the requests to the API. It is the sum of Answers.
	Requests int64 `json:"requests"`
	// Answers counts them by the kind of answer, Faults by injected fault.
	Answers map[string]int64 `json:"answers"`
	Faults  map[string]int64 `json:"faults"`
	// OrdersSeen counts the distinct order_no of properly signed requests,
	// OrdersCreated those of them that exist, CreatedTwice those that were
	// created more than once, and Creations how often an order was created.
	OrdersSeen    int64 `json:"orders_seen"`
	OrdersCreated int64 `json:"orders_created"`
	CreatedTwice  int64 `json:"created_twice"`
	Creations     int64 `json:"creations"`
	// SignatureFailures counts missing and wrong signatures.
	SignatureFailures int64 `json:"signature_failures"`
	// Keys lists the key pairs that are valid now.
	Keys []KeyUse `json:"keys"`
	// PerSecond counts the requests of the last hour by second, oldest first. It omits
	// seconds without requests.
	PerSecond []Second `json:"per_second"`
}

// KeyUse counts the uses of one key pair.
type KeyUse struct {
	// Key is masked.
	Key               string `json:"key"`
	Requests          int64  `json:"requests"`
	SignatureFailures int64  `json:"signature_failures"`
}

// Second counts the requests that arrived within one second.
type Second struct {
	Unix     int64 `json:"unix"`
	Requests int64 `json:"requests"`
	// Creates counts the requests to create an order.
	Creates int64 `json:"creates"`
}

// tallies are the counters behind Ledger.
type tallies struct {
	answers  [answerCount]atomic.Int64
	faults   [faultCount]atomic.Int64
	badSigns atomic.Int64
	seconds  seconds
}

// keepSeconds is how many seconds of requests per second are kept.
const keepSeconds = 3600

// seconds is a ring. The counts of second t are at index t modulo its size.
type seconds struct {
	mu   sync.Mutex
	ring [keepSeconds]Second
}

// slot also accepts times before 1970, which a test's clock may show.
func (s *seconds) slot(t int64) *Second { return &s.ring[uint64(t)%keepSeconds] }

func (s *seconds) count(now time.Time, create bool) {
	t := now.Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slot(t)
	if slot.Unix != t {
		*slot = Second{Unix: t}
	}
	slot.Requests++
	if create {
		slot.Creates++
	}
}

func (s *seconds) list(now time.Time) []Second {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Second{}
	for t := now.Unix() - keepSeconds + 1; t <= now.Unix(); t++ {
		if slot := s.slot(t); slot.Unix == t && slot.Requests > 0 {
			list = append(list, *slot)
		}
	}
	return list
}

// Ledger returns a snapshot. While requests are in flight, its counts may differ from
// one another by those requests.
func (s *Server) Ledger() Ledger {
	l := Ledger{
		StartedAt:         s.startedAt,
		Answers:           make(map[string]int64, answerCount),
		Faults:            make(map[string]int64, faultCount),
		OrdersSeen:        s.book.seen.Load(),
		OrdersCreated:     s.book.once.Load(),
		CreatedTwice:      s.book.more.Load(),
		Creations:         s.book.created.Load(),
		SignatureFailures: s.tallies.badSigns.Load(),
		PerSecond:         s.tallies.seconds.list(s.config.Now()),
	}
	for a := range answerCount {
		n := s.tallies.answers[a].Load()
		l.Requests += n
		l.Answers[a.String()] = n
	}
	for f := NoFault + 1; f < faultCount; f++ {
		l.Faults[f.String()] = s.tallies.faults[f].Load()
	}
	for _, p := range s.keys.all() {
		l.Keys = append(l.Keys, KeyUse{maskKey(p.key), p.requests.Load(), p.badSigns.Load()})
	}
	return l
}

// Created returns how many orders exist under an order_no.
func (s *Server) Created(orderNo string) int {
	e, _ := s.book.lookup(orderNo)
	return e.Created
}

// Lookup returns the ledger's entry for an order_no. It returns false if no properly
// signed request named it.
func (s *Server) Lookup(orderNo string) (Entry, bool) { return s.book.lookup(orderNo) }

// Each calls yield for every known order_no, in no particular order, until yield
// returns false. It may miss orders that arrive meanwhile. It is safe for concurrent
// use, and yield may call the server.
func (s *Server) Each(yield func(orderNo string, e Entry) bool) { s.book.each(yield) }
