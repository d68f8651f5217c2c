package settle

import (
	"time"

	"orderpost/internal/order"
)

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  Header
	Data    []byte
}

// position names the message as a copy of an intent. birth is that of the intents stream.
func (m *Message) position(birth int64) order.Position {
	return order.Position{EnqueuedAt: m.Time.UTC(), Seq: m.Seq, Birth: birth}
}

// Header holds a message's headers. Names are case-sensitive, as in NATS.
type Header map[string][]string

// Get returns the first value of a header, or "".
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces the values of a header by one value.
func (h Header) Set(name, value string) { h[name] = []string{value} }
