package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// maxAdminBody bounds the request bodies of the admin endpoints.
const maxAdminBody = 1 << 20

// adminMux returns the handler of the admin endpoints. They need no authentication,
// because the sandbox is for loopback.
func (s *Server) adminMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sandbox/config", s.getConfig)
	mux.HandleFunc("PUT /_sandbox/config", s.putConfig)
	mux.HandleFunc("GET /_sandbox/ledger", s.getLedger)
	mux.HandleFunc("GET /_sandbox/orders", s.getOrders)
	mux.HandleFunc("GET /_sandbox/orders/{order_no}", s.getOrder)
	mux.HandleFunc("GET /_sandbox/requests", s.getRequests)
	mux.HandleFunc("PUT /_sandbox/keys/{key}", s.putKey)
	mux.HandleFunc("DELETE /_sandbox/keys/{key}", s.deleteKey)
	return mux
}

func (s *Server) getConfig(w http.ResponseWriter, _ *http.Request) {
	settings := s.Settings()
	config := make(map[string]string)
	for k := range settings.Each {
		config[k.Name] = k.String()
	}
	writeJSON(w, http.StatusOK, config)
}

// putConfig changes all settings in the body, or none. Values are numbers, or strings
// as on the command line.
func (s *Server) putConfig(w http.ResponseWriter, r *http.Request) {
	var changes map[string]any
	if err := readJSON(r, &changes); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.Settings()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		value := changes[name]
		text, ok := value.(string)
		if number, is := value.(json.Number); is {
			text, ok = number.String(), true
		}
		if !ok {
			errs = append(errs, fmt.Errorf("%s: the value must be a string or a number", name))
			continue
		}
		errs = append(errs, next.Set(name, text))
	}
	errs = append(errs, next.withDefaults().Validate())
	if err := errors.Join(errs...); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if next.Down == RefuseAll && s.config.AdminAddr == "" {
		writeError(w, http.StatusConflict, errors.New("down: refuse needs an admin address of its own, or nobody could end it"))
		return
	}
	if err := s.apply(next); err != nil { // the address was taken while connections were refused
		writeError(w, http.StatusInternalServerError, err)
		return
	}
	s.getConfig(w, r)
}

func (s *Server) getLedger(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Ledger())
}

// OrderLine is one line of GET /_sandbox/orders.
type OrderLine struct {
	OrderNo string `json:"order_no"`
	Entry
}

func (s *Server) getOrders(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 64<<10)
	lines := newEncoder(out)
	for orderNo, entry := range s.Each {
		if lines.Encode(OrderLine{orderNo, entry}) != nil {
			return
		}
	}
	out.Flush() //nolint:errcheck // the client is gone
}

func (s *Server) getOrder(w http.ResponseWriter, r *http.Request) {
	orderNo := r.PathValue("order_no")
	entry, ok := s.Lookup(orderNo)
	if !ok {
		writeError(w, http.StatusNotFound, errors.New("no properly signed request named this order_no"))
		return
	}
	writeJSON(w, http.StatusOK, OrderLine{orderNo, entry})
}

func (s *Server) getRequests(w http.ResponseWriter, _ *http.Request) {
	if s.trail == nil {
		writeError(w, http.StatusNotFound, errors.New("no trail is kept: start with --trail"))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := newEncoder(w)
	for _, step := range s.trail.list() {
		if lines.Encode(step) != nil {
			return
		}
	}
}

func (s *Server) putKey(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Secret string `json:"secret"`
	}
	if err := readJSON(r, &body); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if err := s.AddKey(r.PathValue("key"), body.Secret); err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, errTooManyKeys) {
			status = http.StatusConflict
		}
		writeError(w, status, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) deleteKey(w http.ResponseWriter, r *http.Request) {
	if !s.RevokeKey(r.PathValue("key")) {
		writeError(w, http.StatusNotFound, errors.New("the key is not known"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func readJSON(r *http.Request, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxAdminBody))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("the body is not the JSON that is expected here: %w", err)
	}
	return nil
}

func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	newEncoder(w).Encode(body) //nolint:errcheck // a client that has gone is its own affair
}

func writeError(w http.ResponseWriter, status int, err error) {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "sandbox: "), "\n")
	writeJSON(w, status, map[string][]string{"errors": lines})
}
