package ops

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reasons says why it is not ready.
	Reasons []string `json:"reasons"`
	// GateOpen and Held say whether orders are posted freely, and what holds
	// them. That has no influence on Ready: an API that is down or refuses the
	// key must not keep the version that mends it from being rolled out, and a
	// restart would mend nothing.
	GateOpen bool    `json:"gate_open"`
	Held     []Block `json:"held"`
	InFlight int     `json:"in_flight"`
	// Notes call for a person, but hold nothing.
	Notes []string `json:"notes,omitempty"`
	// Storage says what is full, or does not store, and what to do. Producers
	// that are refused have no influence on Ready either: what was taken in is
	// settled.
	Storage string `json:"storage,omitempty"`
}

// Readiness judges a worker.
func (s Snapshot) Readiness() Readiness {
	r := Readiness{Reasons: []string{}, GateOpen: s.Gate.Open, Held: s.Gate.Blocks, InFlight: s.InFlight, Notes: s.Notes, Storage: cmp.Or(s.Store.Failing, s.Store.Full)}
	if r.Held == nil {
		r.Held = []Block{} // [] rather than null for those who parse it
	}
	switch {
	case s.Draining:
		r.Reasons = append(r.Reasons, "draining: the worker stops and takes nothing new")
	case !s.Started:
		r.Reasons = append(r.Reasons, "starting")
	}
	if s.Started && !s.Connected {
		r.Reasons = append(r.Reasons, "not connected to the broker")
	}
	if s.Started && s.Connected && s.Missing != "" {
		r.Reasons = append(r.Reasons, s.Missing)
	}
	if s.Store.Failing != "" {
		r.Reasons = append(r.Reasons, s.Store.Failing)
	}
	r.Ready = len(r.Reasons) == 0
	return r
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	r := s.state().Readiness()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(r) // a client that has gone is its own affair
}

// livez says that the process answers, and nothing of broker or API: a restart
// would bring neither back.
func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}
