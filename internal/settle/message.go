package settle

import "time"

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  Header
	Data    []byte
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
