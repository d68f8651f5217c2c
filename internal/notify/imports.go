package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/status"
)

const (
	// importsEvery is the least time between two looks at the imports. A look reads the queue while
	// imports are open, so the next one comes after importsRest times as long as it took.
	importsEvery, importsRest = 2 * time.Second, 10
	// importSteady is how long an import's progress must be unchanged. A run that enqueues an
	// import's orders again writes it each second.
	importSteady = 3 * time.Second
	// probeTime bounds the first read of the queue: the broker answers none to a user without the right.
	probeTime = 10 * time.Second
	// mostImports bounds how many imports are open at once. While there are as many, later ones wait.
	mostImports = 1000
)

// importsTold is which imports the receiver was told of: all whose progress was written up to
// Revision of the bucket, but for those that were written at the revisions of Open.
type importsTold struct {
	Revision uint64   `json:"revision"`
	Open     []uint64 `json:"open,omitempty"`
}

// Import is the data of import.settled.
type Import struct {
	Import string `json:"import"`
	// File and By are the file's path and the person who began the import, where they are known.
	File        string    `json:"file,omitempty"`
	By          string    `json:"by,omitempty"`
	StartedAt   time.Time `json:"started_at"`
	CancelledAt time.Time `json:"cancelled_at,omitzero"`
	// Rows counts the rows of the file, and Counts what became of those that were read, by the
	// words of the command enqueue: a row whose order was settled before is settled_accepted.
	Rows   int            `json:"rows"`
	Counts map[string]int `json:"counts"`
	// Orders counts the orders that the import stored, or its last run if there were several, and
	// Outcomes what became of them.
	Orders   int            `json:"orders"`
	Outcomes map[string]int `json:"outcomes"`
	Results  Results        `json:"results"`
}

// Results says where each row of an import is with its outcome.
type Results struct {
	// Command writes them, given the imported file, and Console is the path of the import's page.
	Command string `json:"command"`
	Console string `json:"console"`
}

// openImport is an import that no run stores any more, and that the receiver was not told of.
type openImport struct {
	*imports.Import
	seen time.Time
}

// watchImports tells when all orders of an import have their outcomes.
func (s *session) watchImports(intake, work context.Context) {
	waits := newBackoff(firstWait, longestWait)
	s.watch(intake, s.log, "cannot find out which imports are settled", func() (time.Duration, error) {
		began := time.Now()
		refused, err := s.lookAtImports(intake, work)
		if refused {
			return max(importsEvery, waits.NextBackOff()), err
		}
		waits.Reset()
		return max(importsEvery, importsRest*time.Since(began)), err
	})
}

// lookAtImports tells the imports that are settled by now. A fleet's first sender tells only
// those that were not settled when it began, unless it begins with the oldest.
func (s *session) lookAtImports(intake, work context.Context) (refused bool, err error) {
	if s.openImports == nil {
		if err := s.mayReadQueue(intake); err != nil {
			return false, err
		}
	}
	told := s.lastTold().Imports
	first := told == nil && !s.oldest
	if told == nil {
		told = &importsTold{}
	}
	revision, err := s.readImports(intake, told, first)
	if err != nil {
		return false, err
	}
	var names []string
	for name, o := range s.openImports {
		if first || time.Since(o.seen) >= importSteady {
			names = append(names, name)
		}
	}
	left, err := status.UnsettledOf(intake, s.queue, names)
	if err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if left[name] > 0 {
			continue
		}
		if !first {
			m, err := s.importMessage(intake, s.openImports[name].Import)
			if err != nil {
				return false, err
			}
			if m == nil {
				continue
			}
			if !s.send(intake, work, m) {
				refused = true
				continue
			}
		}
		delete(s.openImports, name)
		if !first {
			s.noteImports(revision)
		}
	}
	s.noteImports(revision)
	return refused, nil
}

// mayReadQueue returns an error if the queue cannot be read.
func (s *session) mayReadQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := s.queue.Intents().Get(ctx, []uint64{1}); err != nil {
		return fmt.Errorf("the queue cannot be read, for which a NATS user of the role notify needs more rights (Which events do I want? in docs/notify.md): %w", err)
	}
	return nil
}

// readImports reads which imports were written since the last look, and in the first one of the
// session those that were open before. It returns the revision up to which it read.
func (s *session) readImports(ctx context.Context, told *importsTold, first bool) (uint64, error) {
	from := told.Revision
	if s.openImports == nil && len(told.Open) > 0 {
		from = min(from, slices.Min(told.Open)-1)
	}
	list, err := imports.Since(ctx, s.queue, from)
	if err != nil {
		return 0, err
	}
	known := s.openImports != nil
	if !known {
		s.openImports = make(map[string]*openImport)
	}
	revision := told.Revision
	for _, i := range list {
		isOpen := slices.Contains(told.Open, i.Revision())
		if i.Revision() <= told.Revision && (known || !isOpen) {
			continue
		}
		if !first && !isOpen && len(s.openImports) >= mostImports {
			break
		}
		revision = max(revision, i.Revision())
		delete(s.openImports, i.Batch)
		if i.Over() && one(s.filter.imports, i.Batch) {
			s.openImports[i.Batch] = &openImport{i, time.Now()}
		}
	}
	return revision, nil
}

// noteImports notes which imports are told.
func (s *session) noteImports(revision uint64) {
	now := &importsTold{Revision: revision}
	for _, o := range s.openImports {
		now.Open = append(now.Open, o.Revision())
	}
	slices.Sort(now.Open)
	s.noteTold(func(t *allTold) { t.Imports = now })
}

// importMessage returns the event of an import; nil if an order of it is pending after all. Its ID
// stays the same until another outcome of its orders is stored.
func (s *session) importMessage(ctx context.Context, i *imports.Import) (*message, error) {
	counted, err := status.CountRun(ctx, s.queue, i)
	if err != nil || counted.Pending > 0 {
		return nil, err
	}
	data := Import{Import: i.Batch, File: i.File, By: i.By, StartedAt: i.StartedAt, CancelledAt: i.CancelledAt, Rows: i.Rows, Counts: make(map[string]int),
		Orders: counted.Total(), Outcomes: counted.Words(), Results: Results{Command: "orderpost enqueue results " + status.ShellWord(i.Batch), Console: imports.Address(i.Batch)}}
	maps.Copy(data.Counts, i.Counts)
	at := counted.Last
	if at.Before(i.UpdatedAt) {
		at = i.UpdatedAt
	}
	body, err := json.Marshal(Event{Type: TypeImport, Timestamp: at.UTC(), Data: data})
	id := idOf(TypeImport, i.Batch, i.StartedAt.UTC().Format(time.RFC3339Nano), counted.Last.UTC().Format(time.RFC3339Nano))
	return &message{id: id, kind: TypeImport, body: body}, err
}
