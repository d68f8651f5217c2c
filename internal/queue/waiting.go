package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
	n, _, err = wr.extent(ctx)
	return n, err
}

// End returns the sequence of the intent that was put into the waiting room
// last, as its leader knows it; sequence 0 = none ever was.
func (wr *WaitingRoom) End(ctx context.Context) (settle.StreamSeq, error) {
	state, err := wr.stream().State(ctx)
	return state.End(), err
}

func (wr *WaitingRoom) extent(ctx context.Context) (n, last uint64, err error) {
	state, err := wr.stream().State(ctx)
	return state.Messages, state.LastSeq, err
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
	err = wr.conn.patiently(ctx, func(ctx context.Context) error {
		l, err = wr.ask(ctx, filter, skip)
		return err
	})
	return l, err
}

func (wr *WaitingRoom) ask(ctx context.Context, filter string, skip int) (l listing, err error) {
	req, err := json.Marshal(map[string]any{"subjects_filter": filter, "offset": skip})
	if err != nil {
		return l, err
	}
	ctx, cancel := wr.conn.link.bound(ctx)
	defer cancel()
	resp, err := wr.conn.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+wr.conn.n.waiting, req)
	if err != nil {
		return l, fmt.Errorf("stream %s: %w", wr.conn.n.waiting, err)
	}
	var body struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
		jetstream.StreamInfo
	}
	if err := json.Unmarshal(resp.Data, &body); err != nil {
		return l, fmt.Errorf("stream %s: %w", wr.conn.n.waiting, err)
	}
	if body.Error != nil {
		return l, fmt.Errorf("stream %s: %w", wr.conn.n.waiting, body.Error)
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
