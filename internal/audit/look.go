package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// auditor is one look at the books while they are being written.
//
// It takes the end of the results, and then the end of the intents. It counts the
// intents and reads the results up to there, chunk by chunk (chunks.go). A chunk of which no
// record changes from then on counts as it was read, and so does each order of another
// one. The records behind that end name the orders that changed: what was read of
// those is left out, and they are read once more, one by one.
type auditor struct {
	Options
	q    *queue.Queue
	a    *AuditResult
	seed maphash.Seed

	lastResult, lastIntent uint64
	birth                  int64 // of the intents stream
	floor                  uint64

	chunks  map[uint64]*chunk // what they add up to, by index
	results []uint64          // of other chunks, see noteAlone
	large   map[uint64]uint64 // counts of settled intents that do not fit into results
	intents []uint64          // see noteIntent
	odd     map[string]uint64 // intents whose subject does not follow from their token
	changed map[uint64]string // tokens by key

	forgetting bool // results were forgotten while they were read

	named    []named           // the letters that records name, sorted
	unnamed  map[uint64]uint32 // the keys of letters that no record of those that were read names, by sequence
	suspects []string          // tokens

	progress AuditProgress
}

// named is a dead letter that a record names.
type named struct {
	Seq      uint64 `json:"s"`
	Key      uint32 `json:"k"`
	By       uint64 `json:"b"` // the sequence of the record; 0 = the letter is stored
	Conflict bool   `json:"c,omitzero"`
}

// letterKey tells letters of one sequence apart, of two lives of their stream.
func letterKey(token string) uint32 {
	sum := sha256.Sum256([]byte(token))
	return binary.BigEndian.Uint32(sum[:])
}

// compare sorts by sequence. Two records name one only if the stream was made again.
func (n named) compare(o named) int {
	return cmp.Or(cmp.Compare(n.Seq, o.Seq), cmp.Compare(n.Key, o.Key))
}

func newAuditor(q *queue.Queue, o Options) *auditor {
	return &auditor{Options: o, q: q, a: &AuditResult{Outcomes: make(map[string]uint64)}, seed: maphash.MakeSeed(), unnamed: make(map[uint64]uint32), chunks: make(map[uint64]*chunk),
		large: make(map[uint64]uint64), odd: make(map[string]uint64), changed: make(map[uint64]string)}
}

// look reads everything once.
func (l *auditor) look(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.begin, l.readResults, l.readIntents, l.readLetters, l.readChanges, l.sum, l.confirm, l.confirmForgotten} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// moved says whether orders changed while they were read, or are about to.
func (l *auditor) moved() bool {
	return l.forgetting || len(l.changed) > 0 || l.a.Pending+l.a.Unacked > 0
}

// begin takes the end of the results before the end of the intents: every intent
// that a record up to there has settled was stored up to here.
func (l *auditor) begin(ctx context.Context) (err error) {
	losses, _, err := l.q.Extents.Losses(ctx, nil)
	if err != nil {
		return err
	}
	for _, loss := range losses {
		if loss.Was.Restored.IsZero() { // a backup's books balance as of when it was made
			l.a.Offend(loss.Name, "%s. %s", loss, queue.LossAdvice)
		}
	}
	gaps, err := l.q.Census.ReplicaGaps(ctx)
	if err != nil {
		return err
	}
	for _, gap := range gaps {
		l.a.Offend(gap.Stream, "%s. %s", gap, queue.GapAdvice)
	}
	if l.a.Forgotten, err = l.q.Retention.Forgotten(ctx); err != nil {
		return err
	}
	if l.lastResult, err = queue.LastResult(ctx, l.q); err != nil {
		return err
	}
	state, err := l.q.Intents().State(ctx)
	if err != nil {
		return err
	}
	l.lastIntent, l.a.Intents = state.LastSeq, state.LastSeq
	if l.birth, _, err = l.q.Store().Stream(ctx); err != nil {
		return err
	}
	if l.a.Waiting, err = l.q.Waiting.Total(ctx); err != nil {
		return err
	}
	if l.floor, err = l.q.AckFloor(ctx); err != nil { // before the rest: what was acknowledged by now has its outcome
		return err
	}
	if err := l.countUnlisted(ctx); err != nil {
		return err
	}
	results, err := l.q.Results().State(ctx)
	if err != nil {
		return err
	}
	letters, err := l.q.Letters().State(ctx)
	l.progress.Of = state.Messages + results.Messages + letters.Messages
	return err
}

// countUnlisted reports waiting intents that the broker does not list. A worker moves them
// within seconds.
func (l *auditor) countUnlisted(ctx context.Context) error {
	for next, more := uint64(1), true; more; {
		found, after, rest, err := l.q.Waiting.Unlisted(ctx, next)
		if err != nil {
			return err
		}
		for _, m := range found {
			l.a.Offend(settle.WaitingOrderNo(m), "waits under the subject %q, which the broker does not list; a worker of this version moves it within seconds, see docs/producers.md", m.Subject)
		}
		next, more = after, rest
	}
	return nil
}

// passed notes that so many more messages were read.
func (l *auditor) passed(n int) {
	l.progress.Read += uint64(n)
	if l.Tell != nil {
		l.Tell(l.progress)
	}
}

// An order is remembered as 64 bits: a hash of its token, and in the low bits of a
// result its outcome and how many intents it settled, of an intent whether it has
// its outcome.
const (
	wordBits    = 4
	lowBits     = 12
	mostSettled = 1<<(lowBits-wordBits) - 1
)

func (l *auditor) key(token string) uint64 {
	return maphash.String(l.seed, token) >> lowBits << lowBits
}

// noteAlone notes the record of an order that is not summed up in a chunk.
func (l *auditor) noteAlone(token string, r *order.Record) {
	n := uint64(r.Settled)
	if n >= mostSettled {
		l.large[l.key(token)], n = n, mostSettled
	}
	l.results = append(l.results, l.key(token)|n<<wordBits|uint64(r.Outcome()))
}

func (l *auditor) noteIntent(token string, settled bool) {
	v := l.key(token)
	if settled {
		v |= 1
	}
	l.intents = append(l.intents, v)
}

// check notes a record that needs a letter and names none.
func (l *auditor) check(token string, r *order.Record) {
	if lacksLetter(r) {
		l.suspect(token)
	}
}

func lacksLetter(r *order.Record) bool { return r.NeedsLetter() && len(r.Letters()) == 0 }

func isConflict(r *order.Record, letter uint64) bool {
	return r.Outcome() == order.OutcomeAccepted && r.Refused(letter) != nil
}

// peekSame looks up, for each message of a page of one stream, the last message
// of the same order in another stream.
func peekSame(ctx context.Context, page []*settle.Message, in, other queue.Stream) ([]*settle.Message, error) {
	tokens := make([]string, len(page))
	for i, m := range page {
		tokens[i] = settle.FiledToken(in.Token(m), m.Seq, m.Time)
	}
	return other.Peek(ctx, tokens)
}

// readIntents tells the intents that have no outcome yet from the others. Those
// without one must lie above the floor: the broker would deliver them to nobody.
func (l *auditor) readIntents(ctx context.Context) error {
	intents := l.q.Intents()
	return intents.Walk(ctx, 1, l.lastIntent, func(page []*settle.Message) error {
		defer l.passed(len(page))
		records, err := peekSame(ctx, page, intents, l.q.Results())
		if err != nil {
			return err
		}
		for i, m := range page {
			settled := false
			if records[i] != nil {
				entry, err := queue.DecodeRecord(records[i])
				settled = err == nil && m.SettledBy(entry.Record)
			}
			if !settled && m.Seq <= l.floor {
				if settled, err = l.stranded(ctx, m); err != nil {
					return err
				}
			}
			plain := intents.Token(m)
			token := settle.FiledToken(plain, m.Seq, m.Time)
			if token != plain {
				l.odd[token] = m.Seq
			}
			l.noteIntent(token, settled)
		}
		return nil
	})
}

// stranded looks again at an intent that the broker counts as acknowledged.
func (l *auditor) stranded(ctx context.Context, m *settle.Message) (settled bool, err error) {
	stranded, err := l.q.Trimmer.Stranded(ctx, m.Seq)
	if stranded {
		l.a.Offend(orderNoOf(l.q, m), "stored without an outcome, but the broker counts it as acknowledged and will deliver it to nobody; see After a broker was killed in docs/operations.md")
	}
	return !stranded, err
}

// orderNoOf names an intent by its subject.
func orderNoOf(q *queue.Queue, m *settle.Message) string {
	no, err := order.OrderNoFromToken(q.Intents().Token(m))
	if err != nil {
		return m.Subject
	}
	return no
}

// readLetters strikes off what records name. The records that name what is left are suspects, unless they were
// replaced since.
func (l *auditor) readLetters(ctx context.Context) error {
	err := l.q.Letters().Walk(ctx, 1, queue.ToTheEnd, func(page []*settle.Message) error {
		defer l.passed(len(page))
		for _, m := range page {
			key := letterKey(l.q.Letters().Token(m))
			i, found := slices.BinarySearchFunc(l.named, named{Seq: m.Seq, Key: key}, named.compare)
			if !found {
				l.unnamed[m.Seq] = key
				continue
			}
			l.count(l.named[i].Conflict)
			l.named[i].By = 0
		}
		return nil
	})
	if err != nil {
		return err
	}
	var left []uint64
	for _, n := range l.named {
		if n.By != 0 {
			left = append(left, n.By)
		}
	}
	results := l.q.Results()
	for some := range slices.Chunk(left, againSize) {
		records, err := results.Get(ctx, some)
		if err != nil {
			return err
		}
		for _, m := range records {
			if m != nil {
				l.suspect(results.Token(m))
			}
		}
	}
	return nil
}

// count counts a letter that a record names.
func (l *auditor) count(conflict bool) {
	l.a.Letters++
	if conflict {
		l.a.Conflicts++
	}
}

// sum adds up what stayed as it was read, and then what changed.
func (l *auditor) sum(ctx context.Context) error {
	a := l.a
	a.Read += uint64(len(l.results))
	for _, c := range l.chunks {
		c.addTo(a)
	}
	for _, v := range l.results {
		key := v >> lowBits << lowBits
		if _, changed := l.changed[key]; changed {
			continue
		}
		n := v >> wordBits & mostSettled
		if n == mostSettled {
			n = l.large[key]
		}
		a.Settled += n
		a.outcome(order.Outcome(v & (1<<wordBits - 1)))
	}
	for _, v := range l.intents {
		if _, changed := l.changed[v>>lowBits<<lowBits]; changed {
			continue
		}
		a.stored(v&1 == 1)
	}
	return l.readAgain(ctx)
}

// confirmForgotten notes whether results were forgotten while they were read.
func (l *auditor) confirmForgotten(ctx context.Context) error {
	now, err := l.q.Retention.Forgotten(ctx)
	l.forgetting = now != l.a.Forgotten
	return err
}

func (a *AuditResult) outcome(o order.Outcome) { a.Outcomes[wordOf(o)]++ }

func wordOf(o order.Outcome) string {
	if o == order.OutcomeNone {
		return order.Retrying
	}
	return o.String()
}

func (a *AuditResult) stored(settled bool) {
	if settled {
		a.Unacked++
	} else {
		a.Pending++
	}
}
