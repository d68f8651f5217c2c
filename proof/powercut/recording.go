package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// read reads the traces of all sessions. dir is the folder that was traced.
func (r *recorder) read(dir string) (*trace, error) {
	t, v := newTrace(dir)
	processes := make([][]call, r.session+1) // and one without calls after the last
	ends := make([]int, r.session)
	lines := 0
	for i := range r.session {
		f, err := os.Open(r.output(i + 1))
		if err != nil {
			return nil, err
		}
		var n int
		processes[i], n, err = readCalls(f, lines)
		_ = f.Close() // only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.output(i+1), err)
		}
		lines += n
		ends[i] = lines
	}
	for i, end := range ends {
		if err := t.add(v, processes[i], end, r.api.port, processes[i+1]); err != nil {
			return nil, fmt.Errorf("%s: %w", r.output(i+1), err)
		}
	}
	return t, nil
}

// recording is what a trace needs beside its lines.
type recording struct {
	Policy   string            `json:"on_unsure"`
	Disk     string            `json:"disk"`
	Without  []string          `json:"without,omitempty"`
	Port     string            `json:"port"`
	Sessions int               `json:"sessions"`
	Created  map[string][]bool `json:"created"`
}

// trace records a trace in a folder, or reads the one that is there.
func (o *options) trace(ctx context.Context, work, policy string, out io.Writer) (*recorder, *trace, error) {
	r := &recorder{work: filepath.Join(work, policy), policy: policy, without: o.without}
	about := filepath.Join(r.work, "recording.json")
	var err error
	if r.api, err = newAPI(o.seed, policy, loadFaults); err != nil {
		return nil, nil, err
	}
	if o.traces != "" {
		var known recording
		text, err := os.ReadFile(about)
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--traces: %w", err)
		}
		r.session, r.api.port, r.api.created, r.without = known.Sessions, known.Port, known.Created, known.Without
		t, err := r.read(known.Disk)
		return r, t, err
	}
	defer r.kill()
	if err := checkStrace(ctx); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(r.disk(), 0o700); err != nil {
		return nil, nil, err
	}
	if r.binary, err = buildWorker(ctx, work, o.without); err != nil {
		return nil, nil, err
	}
	if r.listen, err = freeAddr(); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	if err := r.load(ctx, o.orders); err != nil {
		return nil, nil, fmt.Errorf("recording: %w\n  %s", err, r.lastLines())
	}
	t, err := r.read(r.disk())
	if err == nil {
		err = t.whole().compare(r.disk())
	}
	if err == nil && len(o.without) == 0 {
		err = errors.Join(t.checkStarts(), t.checkBatches())
	}
	if err != nil {
		return nil, nil, err
	}
	_, _ = fmt.Fprintf(out, "recorded %s: %d operations on files, %d confirmations, %d requests to the API in %.0f s\n",
		policy, len(t.ops), t.confirmations(), len(t.posts), time.Since(began).Seconds())
	text, err := json.Marshal(recording{policy, r.disk(), o.without, r.api.port, r.session, r.api.created})
	if err == nil {
		err = os.WriteFile(about, text, 0o600)
	}
	return r, t, err
}

// checkBatches returns an error if no results went to the broker as an atomic batch.
func (t *trace) checkBatches() error {
	if !t.batches {
		return errors.New("no batch of results is in the trace: it shows nothing about them")
	}
	return nil
}

// freeAddr returns a free loopback address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// checkStarts returns an error if a broker built on something that it had found and that
// was not synced: at its first confirmation, nothing that an earlier process did may be
// undone.
func (t *trace) checkStarts() error {
	for i, began := range t.sessions[1:] {
		first := slices.IndexFunc(t.events, func(e event) bool { return e.line >= began && !e.removed })
		if first < 0 {
			continue
		}
		for _, m := range models() {
			all, none := t.bare(m, t.events[first].line), t.bare(m, t.events[first].line)
			for at, o := range all.open {
				later := t.ops[o].enter >= began
				all.fates[at].kept, none.fates[at].kept = true, later
			}
			if t.build(all).sum() != t.build(none).sum() {
				return fmt.Errorf("start %d of the broker: at its first confirmation, what the process before had not synced can still be lost (%s)", i+2, m)
			}
		}
	}
	return nil
}
