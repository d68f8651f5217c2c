package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// chunkSize is how many sequences of the results a chunk has.
	chunkSize = 1 << 16
	// mostGone bounds how many removed sequences the broker lists: some 20 MB of JSON. Behind more of them
	// no chunk counts as unchanged.
	mostGone = 2_000_000
	// provenKey is the bucket's key that holds what the last audits read, as far as provenMost bytes go: some 200 kB
	// for a hundred million orders, and 40 bytes for each dead letter. Another format has another key.
	provenKey  = "audit.v1"
	provenMost = 900_000
	// pagesAhead is how many pages of results are read while others are decoded.
	pagesAhead = 4
)

// chunk is what the records of a range of sequences add up to. That holds for as long as the same sequences are
// stored, and the last of them is the same: what is stored under a sequence never changes, unless the stream lost its end.
type chunk struct {
	Stored   set               `json:"stored"`
	Settled  uint64            `json:"settled"`
	Outcomes map[string]uint64 `json:"outcomes"`
	Named    []named           `json:"named,omitempty"`
	// Last is the last sequence, and Hash that of its message.
	Last uint64 `json:"last"`
	Hash uint64 `json:"hash"`

	taken bool // from an earlier audit
	doubt bool // a record is unreadable, or lacked its letter
	last  *settle.Message
}

// set says which sequences of a chunk are stored: how many, and the sum of their hashes.
type set struct {
	N   uint64 `json:"n"`
	Sum uint64 `json:"sum"`
}

func (s *set) add(seq uint64) {
	s.N++
	h := (seq ^ seq>>30) * 0xbf58476d1ce4e5b9 // the finalizer of splitmix64
	h = (h ^ h>>27) * 0x94d049bb133111eb
	s.Sum += h ^ h>>31
}

// addTo adds what a chunk adds up to.
func (c *chunk) addTo(a *AuditResult) {
	if c.taken {
		a.Taken += c.Stored.N
	} else {
		a.Read += c.Stored.N
	}
	a.Settled += c.Settled
	for word, n := range c.Outcomes {
		a.Outcomes[word] += n
	}
}

// hashOf returns a hash of all that is stored of a message.
func hashOf(m *settle.Message) uint64 {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, m.Time.UnixNano(), m.Subject)
	_, _ = h.Write(m.Data)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// proven is what audits found of the books that balanced.
type proven struct {
	// Size is how many sequences a chunk has.
	Size uint64 `json:"size"`
	// Full is when the last audit that read all ended.
	Full   time.Time         `json:"full"`
	Chunks map[uint64]*chunk `json:"chunks"`
}

// stored asks the leader which sequences each chunk has, of those that end by lastResult. nil = it would have to
// list too many that are gone.
func (l *auditor) stored(ctx context.Context) (map[uint64]set, error) {
	state, err := l.q.Results().State(ctx)
	if err != nil || state.Deleted > mostGone {
		return nil, err
	}
	gone, state, err := l.q.Results().Gaps(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[uint64]set)
	for seq, end := state.FirstSeq, (l.lastResult+1)/l.chunk*l.chunk; seq < end; {
		var s set
		i := seq / l.chunk
		for ; seq < (i+1)*l.chunk; seq++ {
			if len(gone) > 0 && gone[0] == seq {
				gone = gone[1:]
				continue
			}
			s.add(seq)
		}
		out[i] = s
	}
	return out, nil
}

// recall adds the chunks that earlier audits read and that are the same since.
func (l *auditor) recall(ctx context.Context, stored map[uint64]set) error {
	if l.Full || len(stored) == 0 {
		return nil
	}
	var p proven
	entries, err := l.q.Bucket().Last(ctx, provenKey)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if json.Unmarshal(e.Value, &p) != nil {
			return nil
		}
	}
	if p.Size != l.chunk {
		return nil
	}
	maps.DeleteFunc(p.Chunks, func(i uint64, c *chunk) bool { return l.chunks[i] != nil || c == nil || c.Stored != stored[i] })
	if len(p.Chunks) == 0 {
		return nil
	}
	// A stream that lost its end and grew again, or that was made again, has other messages from some place up to its
	// end. So the last one tells.
	last := p.Chunks[slices.Max(slices.Collect(maps.Keys(p.Chunks)))]
	m, err := l.q.Results().Get(ctx, []uint64{last.Last})
	if err != nil || m[0] == nil || hashOf(m[0]) != last.Hash {
		return err
	}
	for i, c := range p.Chunks {
		c.taken = true
		l.chunks[i] = c
	}
	l.a.FullAt = p.Full
	return nil
}

// remember stores what the chunks add up to, those with the fewest letters first. Without it the next audit reads
// more.
func (l *auditor) remember(ctx context.Context) {
	if l.a.Taken == 0 {
		l.a.FullAt = time.Now().UTC()
	}
	p := proven{Size: l.chunk, Full: l.a.FullAt, Chunks: make(map[uint64]*chunk)}
	size := 0
	for _, i := range slices.SortedFunc(maps.Keys(l.chunks), func(i, j uint64) int { return len(l.chunks[i].Named) - len(l.chunks[j].Named) }) {
		c := l.chunks[i]
		if c.last != nil {
			c.Last, c.Hash = c.last.Seq, hashOf(c.last)
		}
		text, err := json.Marshal(c)
		if size += len(text) + 25; err != nil || size > provenMost {
			break
		}
		if !c.doubt {
			p.Chunks[i] = c
		}
	}
	if len(p.Chunks) > 0 {
		_ = l.q.Bucket().Offer(ctx, provenKey, p)
	}
}

// readResults reads the chunks that neither an earlier audit read nor an earlier look, or that changed since.
func (l *auditor) readResults(ctx context.Context) error {
	stored, err := l.stored(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(l.chunks, func(i uint64, c *chunk) bool { return c.taken || c.doubt || c.Stored != stored[i] })
	if err := l.recall(ctx, stored); err != nil {
		return err
	}
	for _, c := range l.chunks {
		l.named = append(l.named, c.Named...)
		l.progress.Of -= min(l.progress.Of, c.Stored.N)
	}
	state, err := l.q.Results().State(ctx)
	if err != nil {
		return err
	}
	for i, end := state.FirstSeq/l.chunk, l.lastResult/l.chunk; i <= end; i++ {
		from := i
		for i <= end && l.chunks[i] == nil {
			i++
		}
		if from == i {
			continue
		}
		err := l.eachResult(ctx, from, i-1, func(m *settle.Message, r *order.Record, err error) {
			l.noteResult(m, r, err, stored != nil)
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(l.named, named.compare)
	return nil
}

// eachResult passes the records of the chunks first to last to visit, up to lastResult. It decodes some while
// others are read.
func (l *auditor) eachResult(ctx context.Context, first, last uint64, visit func(*settle.Message, *order.Record, error)) error {
	pages := make(chan []*settle.Message, pagesAhead)
	reading, ctx := errgroup.WithContext(ctx)
	reading.Go(func() error {
		defer close(pages)
		return l.q.Results().Walk(ctx, max(first*l.chunk, 1), min((last+1)*l.chunk-1, l.lastResult), func(page []*settle.Message) error {
			pages <- page
			return nil
		})
	})
	for page := range pages {
		for _, m := range page {
			entry, err := queue.DecodeRecord(m)
			visit(m, entry.Record, err)
		}
		l.passed(len(page))
	}
	return reading.Wait()
}

// noteResult adds a record to its chunk, or notes it by itself where sum is false or the chunk goes beyond lastResult.
// It checks that a record that needs a letter names one, and notes which.
func (l *auditor) noteResult(m *settle.Message, r *order.Record, err error, sum bool) {
	var c *chunk
	if i := m.Seq / l.chunk; sum && (i+1)*l.chunk <= l.lastResult+1 {
		if c = l.chunks[i]; c == nil {
			c = &chunk{Outcomes: make(map[string]uint64)}
			l.chunks[i] = c
		}
		c.Stored.add(m.Seq)
		c.last = m
		c.doubt = c.doubt || err != nil || lacksLetter(r)
	}
	if err != nil {
		l.a.Offend(m.Subject, "%v", err)
		return
	}
	token := l.q.Results().Token(m)
	l.check(token, r)
	if c == nil {
		l.noteAlone(token, r)
	} else {
		c.Settled += uint64(r.Settled)
		c.Outcomes[wordOf(r.Outcome())]++
	}
	for _, seq := range r.Letters() {
		n := named{seq, letterKey(token), m.Seq, isConflict(r, seq)}
		l.named = append(l.named, n)
		if c != nil {
			c.Named = append(c.Named, n)
		}
	}
}

// onePass is how many records a pass over the changes may find for the changes to be complete.
const onePass = 256

// readChanges names the orders whose records were written since begin. A pass ends where the results ended when it
// began, and misses a record that is replaced by one behind that before the pass reads it. So passes go on until one
// finds so little that it is a single request: an outcome is replaced only after its intent was trimmed and another one
// was published, delivered and checked. What a chunk adds up to that lost some
// meanwhile is of no use any more: the others of its records are noted one by one.
func (l *auditor) readChanges(ctx context.Context) error {
	results := l.q.Results()
	for next := l.lastResult + 1; ; {
		found := 0
		err := results.Walk(ctx, next, queue.ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				token := results.Token(m)
				l.changed[l.key(token)] = token
				next = m.Seq + 1
			}
			found += len(page)
			l.passed(len(page))
			return nil
		})
		switch {
		case err != nil:
			return err
		case found > onePass:
			continue
		case len(l.chunks) == 0:
			return nil
		}
		stored, err := l.stored(ctx)
		if err != nil {
			return err
		}
		same := true
		for i, c := range l.chunks {
			if c.Stored == stored[i] {
				continue
			}
			same = false
			delete(l.chunks, i)
			err := l.eachResult(ctx, i, i, func(m *settle.Message, r *order.Record, err error) {
				if err == nil { // its letters, and one that is unreadable, are noted
					l.noteAlone(results.Token(m), r)
				}
			})
			if err != nil {
				return err
			}
		}
		if same {
			return nil
		}
	}
}
