package queue

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

// Waiting is what waits under one subject of the waiting room: intents of one lane
// and import, without a time or for one second.
type Waiting struct {
	// Lane and Import name the turn that the intents take. Import is the token of
	// the import, "-" for intents of none.
	Lane, Import string
	// At is the second from which on the intents may be sent; zero = any time. It is
	// long over for a time that does not exist or is more than a year ahead.
	At time.Time
	// Count is the number of intents.
	Count int
	// Subject is their subject.
	Subject string
}

// noTime is At for a time that does not exist or is too far ahead. It is over, so such
// an intent leaves the waiting room, and a worker refuses it.
var noTime = time.Unix(0, 0)

// WaitingRoom is what waits to be moved into the queue (R13).
type WaitingRoom struct {
	conn   *Conn
	reader *reader
	last   atomic.Pointer[lastListing]
}

// lastListing is what the broker told with the last listing: what its clock showed when it was read,
// and the birth of the stream.
type lastListing struct {
	shown, read time.Time
	birth       int64
}

// Clock returns the broker's time, as of the last listing; zero = there was none.
func (wr *WaitingRoom) Clock() time.Time {
	c := wr.last.Load()
	if c == nil || c.shown.IsZero() {
		return time.Time{}
	}
	return c.shown.Add(time.Since(c.read))
}

// Birth returns the birth of the waiting room (settle.StreamSeq), as of the last listing; 0 = there was none.
func (wr *WaitingRoom) Birth() int64 {
	if c := wr.last.Load(); c != nil {
		return c.birth
	}
	return 0
}

// Total counts every waiting intent.
func (wr *WaitingRoom) Total(ctx context.Context) (n uint64, err error) {
	state, err := wr.stream().State(ctx)
	return state.Messages, err
}

// End returns the sequence of the intent that was put into the waiting room
// last, as its leader knows it; sequence 0 = none ever was.
func (wr *WaitingRoom) End(ctx context.Context) (settle.StreamSeq, error) {
	state, err := wr.stream().State(ctx)
	return state.End(), err
}

func (wr *WaitingRoom) stream() Stream {
	return Stream{wr.reader, wr.conn.n.waiting, wr.conn.n.waitPre, false, ">"}
}

// Now lists what waits without a time. total counts every waiting intent,
// those with a time included.
func (wr *WaitingRoom) Now(ctx context.Context) (list []Waiting, total int, err error) {
	l, err := wr.list(ctx, wr.conn.n.waitPre+"*.*", 0)
	return l.list, l.total, err
}

// All lists what waits, with a time or without, by time. The broker lists at most
// 100,000 seconds and imports; what is beyond that is left out.
func (wr *WaitingRoom) All(ctx context.Context) (list []Waiting, err error) {
	if n, err := wr.Total(ctx); err != nil || n == 0 {
		return nil, err
	}
	l, err := wr.list(ctx, wr.conn.n.waitPre+">", 0)
	return l.list, err
}

// InMinute lists what waits for a time in the minute of at.
func (wr *WaitingRoom) InMinute(ctx context.Context, at time.Time) (list []Waiting, err error) {
	l, err := wr.list(ctx, wr.conn.n.waitPre+"at."+settle.WaitingMinute(at)+".>", 0)
	return l.list, err
}

// Timed lists what waits for a time of an import, by its token.
func (wr *WaitingRoom) Timed(ctx context.Context, token string) (list []Waiting, err error) {
	l, err := wr.list(ctx, wr.conn.n.waitPre+"at.*.*.*.*."+token, 0)
	return l.list, err
}

// Under counts what waits under one subject. The stream's leader answers.
func (wr *WaitingRoom) Under(ctx context.Context, subject string) (n int, err error) {
	l, err := wr.list(ctx, subject, 0)
	for _, w := range l.list {
		n += w.Count
	}
	return n, err
}

// listing is one answer of the broker: at most mostSubjects subjects that match.
type listing struct {
	list     []Waiting // by time and subject
	subjects int       // that match
	total    int       // intents that wait, under whatever subject
}

// list lists the subjects that match a filter, without the first few.
func (wr *WaitingRoom) list(ctx context.Context, filter string, skip int) (l listing, err error) {
	body, err := wr.reader.infoWith(ctx, wr.conn.n.waiting, query{"subjects_filter": filter, "offset": skip})
	if err != nil {
		return l, err
	}
	now := time.Now()
	wr.last.Store(&lastListing{body.TimeStamp, now, bornAt(&body.StreamInfo).UnixNano()})
	for subject, n := range body.State.Subjects {
		w := wr.read(subject, now)
		w.Count = int(n)
		l.list = append(l.list, w)
	}
	slices.SortFunc(l.list, func(a, b Waiting) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Subject, b.Subject)
	})
	l.subjects, l.total = body.Total, int(body.State.Msgs)
	return l, nil
}

// read reads what a subject says.
func (wr *WaitingRoom) read(subject string, now time.Time) Waiting {
	lane, batch, second := settle.SplitWaiting(strings.TrimPrefix(subject, wr.conn.n.waitPre))
	w := Waiting{Lane: lane, Import: batch, Subject: subject}
	if at, ok := settle.WaitingTime(second, now); ok {
		w.At = at
	} else if second != "" {
		w.At = noTime
	}
	return w
}

// importPatterns match the subjects of an import's waiting intents, those with a
// time included.
func importPatterns(token string) []string { return []string{"*." + token, "at.*.*.*.*." + token} }

// Of counts the waiting intents of an import, by its token.
func (wr *WaitingRoom) Of(ctx context.Context, token string) (n uint64, err error) {
	if any, err := wr.Total(ctx); err != nil || any == 0 {
		return 0, err
	}
	for _, pattern := range importPatterns(token) {
		some, err := wr.count(ctx, pattern)
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// count counts what waits under the subjects that match a pattern after the prefix. Any replica
// may answer.
func (wr *WaitingRoom) count(ctx context.Context, pattern string) (n uint64, err error) {
	first, left, err := wr.Page(ctx, wr.conn.n.waitPre+pattern, 0, 1)
	return uint64(len(first) + left), err
}

// mostWaiting bounds a page of waiting intents. It waits for every write to the stream that is
// under way, so few large ones are read.
const mostWaiting = 1000

// Page reads up to n waiting intents of a subject, from a sequence on, in
// their order. left is how many come after them. With several replicas a follower that
// lags may answer; what it lacks is read later.
func (wr *WaitingRoom) Page(ctx context.Context, subject string, from uint64, n int) (page []*settle.Message, left int, err error) {
	page, _, more, err := wr.reader.matching(ctx, wr.conn.n.waiting, subject, from, min(n, mostWaiting))
	return page, int(more), err
}

// StillWaits reports whether anything of an import waits up to a sequence, by its
// token. The leader of the stream answers, unlike in [WaitingRoom.Of].
func (wr *WaitingRoom) StillWaits(ctx context.Context, token string, last uint64) (bool, error) {
	if any, err := wr.Total(ctx); err != nil || any == 0 {
		return false, err
	}
	for _, pattern := range importPatterns(token) {
		l, err := wr.list(ctx, wr.conn.n.waitPre+pattern, 0)
		if err != nil {
			return false, err
		}
		if l.subjects == 0 {
			continue
		}
		if last == ToTheEnd {
			return true, nil
		}
		// No answer means that it left meanwhile, or that the broker could not read it.
		first, err := wr.reader.getMsg(ctx, wr.conn.n.waiting, query{"seq": 1, "next_by_subj": wr.conn.n.waitPre + pattern})
		if err != nil || first == nil || first.Seq <= last {
			return true, err
		}
	}
	return false, nil
}

// Each passes the waiting intents of an import up to a sequence to visit, by
// its token, page by page. An empty token means every import. It passes nothing that
// is stored later than its call, so it ends however fast producers publish.
func (wr *WaitingRoom) Each(ctx context.Context, token string, last uint64, visit func([]*settle.Message) error) error {
	now, err := wr.stream().State(ctx)
	if err != nil || now.Messages == 0 {
		return err
	}
	patterns := []string{">"}
	if token != "" {
		patterns = importPatterns(token)
	}
	for _, pattern := range patterns {
		if err := wr.stream().Matching(ctx, pattern, min(last, now.LastSeq), visit); err != nil {
			return err
		}
	}
	return nil
}

// Import returns the token of the import under which an intent waits.
func (wr *WaitingRoom) Import(m *settle.Message) string {
	return wr.read(m.Subject, m.Time).Import
}

// mostSubjects is how many subjects the broker lists in one answer, in their order.
// That of times is the order of the times.
const mostSubjects = 100_000

// Overdue passes what waits for a time before now to visit, until visit returns
// false: the oldest first, and what has a time that is none. If there are too many
// seconds for one answer of the broker, it looks at the oldest ones and at one more
// part, which begins at the subject number from. It returns where the next call
// should go on; 0 = at the beginning. No program has to remember times, however many
// there are.
func (wr *WaitingRoom) Overdue(ctx context.Context, now time.Time, from int, visit func(Waiting) bool) (next int, err error) {
	oldest, err := wr.list(ctx, wr.conn.n.waitPre+"at.>", 0)
	if err != nil {
		return 0, err
	}
	list := oldest.list
	if oldest.subjects > mostSubjects {
		next = max(from, mostSubjects)
		more, err := wr.list(ctx, wr.conn.n.waitPre+"at.>", next)
		if err != nil {
			return 0, err
		}
		list = append(list, more.list...)
		if next += mostSubjects; next >= more.subjects {
			next = 0
		}
	}
	for _, w := range list {
		if w.At.IsZero() {
			continue // a lane that is called "at"
		}
		if w.At.Before(now) && !visit(w) {
			break
		}
	}
	return next, nil
}

// nats-server stores a message under any subject, but its index of subjects refuses those
// with the byte 127 (2.15.2, stree.Insert). Such a message counts in the stream and is read
// by its sequence, but no list, no filter and no limit of messages for each subject knows
// of it. The feeder finds its work by lists, so it would leave such an intent in the waiting
// room for ever.

// unlistedPages bounds how many pages one call of Unlisted reads.
const unlistedPages = 16

// Unlisted returns waiting intents that the broker counts and does not list, from a
// sequence on. It reads the waiting room only if there are more messages than the list of
// subjects says, and then at most some thousand of them. next is the sequence to go on
// from. more says that the call did not come to the end.
func (wr *WaitingRoom) Unlisted(ctx context.Context, from uint64) (found []*settle.Message, next uint64, more bool, err error) {
	some, last, err := wr.listLacks(ctx)
	if err != nil || !some {
		return nil, from, false, err
	}
	listed := make(map[string]bool)
	next = max(from, 1)
	for pages := 0; next <= last; pages++ {
		if pages == unlistedPages {
			return found, next, true, nil
		}
		page, after, left, err := wr.reader.page(ctx, wr.conn.n.waiting, wr.conn.n.waitPre+">", next, pageSize)
		if err != nil {
			return found, next, false, err
		}
		for _, m := range page {
			if settle.PlainSubject(strings.TrimPrefix(m.Subject, wr.conn.n.waitPre)) {
				continue
			}
			known, asked := listed[m.Subject]
			if !asked {
				n, err := wr.Under(ctx, m.Subject)
				if err != nil {
					return found, next, false, err
				}
				known = n > 0
				listed[m.Subject] = known
			}
			if !known {
				found = append(found, m)
			}
		}
		if next = after; left == 0 {
			break
		}
	}
	return found, last + 1, false, nil
}

// listLacks reports whether the waiting room has more messages than its list of subjects
// says, and its last sequence. While intents come and go it may report true by mistake.
func (wr *WaitingRoom) listLacks(ctx context.Context) (some bool, last uint64, err error) {
	before, err := wr.stream().State(ctx)
	if err != nil || before.Messages == 0 {
		return false, before.LastSeq, err
	}
	var listed uint64
	for _, pattern := range []string{"*.*", "at.*.*.*.*.*"} {
		n, err := wr.count(ctx, pattern)
		if err != nil {
			return false, before.LastSeq, err
		}
		listed += n
	}
	after, err := wr.Total(ctx)
	return min(before.Messages, after) > listed, before.LastSeq, err
}
