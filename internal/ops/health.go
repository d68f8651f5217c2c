package ops

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reasons says why the worker is not ready.
	Reasons []string `json:"reasons"`
	// GateOpen says whether the worker posts orders freely. Held lists what stops it.
	// Both do not influence Ready. An API that is down or refuses the key must not
	// block the rollout of a version that fixes the problem, and a restart would not
	// help.
	GateOpen bool    `json:"gate_open"`
	Held     []Block `json:"held"`
	InFlight int     `json:"in_flight"`
	// Notes need a person's attention but stop nothing.
	Notes []string `json:"notes,omitempty"`
	// Storage says which storage is full or failing and what to do. A full queue does
	// not influence Ready: the worker still settles the orders in it.
	Storage string `json:"storage,omitempty"`
}

// Readiness returns the worker's readiness.
func (s Snapshot) Readiness() Readiness {
	r := Readiness{Reasons: []string{}, GateOpen: s.Gate.Open, Held: s.Gate.Blocks, InFlight: s.InFlight, Notes: s.Notes, Storage: cmp.Or(s.Store.Failing, s.Store.Full)}
	if r.Held == nil {
		r.Held = []Block{} // [] instead of null in JSON
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
	_ = out.Encode(r) // the client is gone
}

// livez reports that the process responds. It ignores broker and API, because a
// restart would fix neither.
func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}
