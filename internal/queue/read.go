package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/settle"
)

// inboxes keeps subscriptions for requests that are answered by several
// messages. A new subscription for each request would cost the broker as much
// as the request.
type inboxes struct {
	nc   *nats.Conn
	log  zerolog.Logger
	free chan *inbox
}

// keptInboxes is how many subscriptions are kept: more than there are requests at once.
const keptInboxes = 256

func newInboxes(nc *nats.Conn, log zerolog.Logger) inboxes {
	return inboxes{nc, log, make(chan *inbox, keptInboxes)}
}

// inbox is one such subscription. One request uses it at a time, and returns it
// only when no more answers can come.
type inbox struct {
	subject string
	sub     *nats.Subscription
	answers chan *nats.Msg
}

// inboxRoom is the largest number of answers to one request, with its end
// marker. The server answers for at most 1,024 subjects at once.
const inboxRoom = 1024 + 8

// take returns a kept subscription, or a new one.
func (i *inboxes) take() (*inbox, error) {
	for {
		select {
		case in := <-i.free:
			late := in.clean()
			if late == nil {
				return in, nil
			}
			i.log.Warn().Str("subject", late.Subject).Str("reply", late.Reply).Msg("an answer came after its request had ended; if it is an order, it comes again when its ACK_WAIT is over")
			_ = in.sub.Unsubscribe() // an answer came late; its request has ended
		default:
			in := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, inboxRoom)}
			var err error
			in.sub, err = i.nc.ChanSubscribe(in.subject, in.answers)
			return in, err
		}
	}
}

// clean discards the final status of the last request. It returns what else was left; nil =
// nothing.
func (in *inbox) clean() (late *nats.Msg) {
	for {
		select {
		case msg := <-in.answers:
			if !isBatchCompleted(msg) {
				return msg
			}
		default:
			return nil
		}
	}
}

// put returns an inbox. over says that its request was answered to the end and
// no more answers can come. Otherwise put ends the subscription: an order that
// came late would pass for one of the next pull, and its claim would seem
// younger than it is.
func (i *inboxes) put(in *inbox, over bool) {
	if over {
		select {
		case i.free <- in:
			return
		default: // enough are kept
		}
	}
	_ = in.sub.Unsubscribe()
}

// isBatchCompleted reports whether the message is the status that ends a pull
// with bytes left. No pull waits for it.
func isBatchCompleted(msg *nats.Msg) bool {
	return len(msg.Data) == 0 && msg.Header.Get("Status") == "409" && msg.Header.Get("Description") == "Batch Completed"
}

// reader reads messages, singly at the leader or in batches, and removes them.
type reader struct {
	conn     *Conn
	replicas atomic.Int32 // the largest count of a stream's that this program has seen
	inboxes  inboxes
}

// replicated says whether a follower may answer a batched read. That holds for
// every clustered broker: a stream with one replica may get more while this
// program runs.
func (rd *reader) replicated() bool {
	return rd.replicas.Load() > 1 || rd.conn.nc.ConnectedClusterName() != ""
}

// saw notes the replica count of a stream. A worker looks at streams while it reads.
func (rd *reader) saw(replicas int) {
	for seen := rd.replicas.Load(); int32(replicas) > seen; seen = rd.replicas.Load() {
		if rd.replicas.CompareAndSwap(seen, int32(replicas)) {
			return
		}
	}
}

// info reads a stream's configuration and state.
func (rd *reader) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	info, err := patiently(ctx, rd.conn, func(ctx context.Context) (*jetstream.StreamInfo, error) { return rd.conn.info(ctx, name) })
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return info, nil
}

// errIncomplete means that a batched read ended without its end marker. Absence
// from it proves nothing (R2).
var errIncomplete = errors.New("batched read ended early")

// errCut means that the server ended the answer at its limit of bytes.
var errCut = fmt.Errorf("%w: too large", errIncomplete)

// answerBytes is where the broker ends one batched answer. The server's own
// limit is its max_pending, 64 MiB. Several such answers at once exceed what
// the server lets a client lag behind, and it drops the connection of a slow
// consumer. The server always sends at least one message.
const answerBytes = 4 << 20

// lastInBatches passes the last message of each of at most 1,024 subjects to take, in no order,
// and twice if an answer was cut. A subject without a call of take has no message: the answer was
// complete to its end marker. With more than one replica, a follower that lags may answer. It
// halves a request whose answer is cut at answerBytes.
func (rd *reader) lastInBatches(ctx context.Context, stream string, subjects []string, take func(*settle.Message)) error {
	err := rd.lastInOneBatch(ctx, stream, subjects, take)
	if half := len(subjects) / 2; errors.Is(err, errCut) && half > 0 {
		return errors.Join(
			rd.lastInBatches(ctx, stream, subjects[:half], take),
			rd.lastInBatches(ctx, stream, subjects[half:], take))
	}
	return err
}

// lastInOneBatch is lastInBatches in one request. One replica answers as of one
// moment: the server holds its store's lock meanwhile.
func (rd *reader) lastInOneBatch(ctx context.Context, stream string, subjects []string, take func(*settle.Message)) error {
	return rd.conn.patiently(ctx, func(ctx context.Context) error {
		return rd.askLast(ctx, stream, query{"multi_last": subjects, "max_bytes": answerBytes}, take)
	})
}

// askLast makes one batched read of last messages.
func (rd *reader) askLast(ctx context.Context, stream string, q query, take func(*settle.Message)) error {
	return rd.direct(ctx, stream, [][]byte{q.json()}, func(msg *nats.Msg, _ asker) (bool, error) {
		if status := directStatus(msg); status != "" {
			return endOfBatch(status, msg.Header)
		}
		raw, err := directMsg(msg)
		if err == nil {
			take(raw)
		}
		return false, err
	})
}

// query is a request of JetStream's API.
type query map[string]any

func (q query) json() []byte {
	data, _ := json.Marshal(q) // its values are texts, numbers and times
	return data
}

// asker sends a further request of a direct get.
type asker = func(request []byte) error

// direct sends requests for stored messages that any replica may answer, with at most inboxRoom
// messages in all, end markers included. It passes each answer to take until take reports the end.
func (rd *reader) direct(ctx context.Context, stream string, requests [][]byte, take func(msg *nats.Msg, ask asker) (over bool, err error)) (err error) {
	ctx, cancel := rd.conn.link.bound(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("read from stream %s: %w", stream, err)
		}
	}()
	in, err := rd.inboxes.take()
	if err != nil {
		return err
	}
	over := false
	defer func() { rd.inboxes.put(in, over && err == nil) }()
	ask := func(request []byte) error {
		return rd.conn.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, in.subject, request)
	}
	for _, r := range requests {
		if err := ask(r); err != nil {
			return err
		}
	}
	for !over && err == nil {
		select {
		case msg := <-in.answers:
			over, err = take(msg, ask)
		case <-ctx.Done():
			err = fmt.Errorf("%w: %w", errIncomplete, ctx.Err())
		}
	}
	return err
}

// directStatus returns the broker's status in an answer to a direct get, or ""
// for a stored message. A producer may set a header Status too, but the broker
// adds the name of the stream to each stored message and never to a status.
func directStatus(msg *nats.Msg) string {
	if len(msg.Data) > 0 || msg.Header.Get(jetstream.StreamHeader) != "" {
		return ""
	}
	return msg.Header.Get("Status")
}

// directMsg reads one message of a direct get's answer. The broker appends its
// headers to the stored ones, which may have the same names. So directMsg reads
// the last value of each and removes it. What remains is the stored header.
func directMsg(msg *nats.Msg) (*settle.Message, error) {
	seq, err := strconv.ParseUint(popHeader(msg.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("answer without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, popHeader(msg.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return nil, fmt.Errorf("answer without a time: %w", err)
	}
	popHeader(msg.Header, jetstream.StreamHeader)
	return &settle.Message{Subject: popHeader(msg.Header, jetstream.SubjectHeader), Seq: seq, Time: at, Header: settle.Header(msg.Header), Data: msg.Data}, nil
}

// popHeader removes the last value of a header and returns it.
func popHeader(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	if h[name] = values[:len(values)-1]; len(values) == 1 {
		delete(h, name)
	}
	return values[len(values)-1]
}

// pageSize is how many messages a page has at most, fewer if they are large
// (answerBytes).
const pageSize = 256

// readPage is page or matching.
type readPage = func(ctx context.Context, stream, filter string, from uint64, most int) (page []*settle.Message, next, left uint64, err error)

// pages passes pages from a sequence on, in the order of the sequences, in constant memory. It
// ends with the first error.
func pages(ctx context.Context, read readPage, stream, filter string, from uint64) iter.Seq2[[]*settle.Message, error] {
	return func(yield func([]*settle.Message, error) bool) {
		for next, left := max(from, 1), uint64(1); left > 0; {
			var page []*settle.Message
			var err error
			page, next, left, err = read(ctx, stream, filter, next, pageSize)
			if (err != nil || len(page) > 0) && !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// page reads messages from sequence from on, and returns the sequence behind the last
// one, 0 if there is none, and how many are left behind it on the server that answered. It
// reads the whole stream and keeps what matches. Asked for a filter with a wildcard, the server would first count all
// matches for every page, in time that grows with the stream (nats-server 2.15,
// getDirectRequest).
func (rd *reader) page(ctx context.Context, stream, filter string, from uint64, most int) (page []*settle.Message, next, left uint64, err error) {
	return rd.pageBy(ctx, stream, filter, query{"seq": from, "batch": most, "max_bytes": answerBytes})
}

// matching is page for the messages of a filter, which the server finds by its index of subjects. It
// counts the matches for each page, so use it where they are few.
func (rd *reader) matching(ctx context.Context, stream, filter string, from uint64, most int) (page []*settle.Message, next, left uint64, err error) {
	return rd.pageBy(ctx, stream, ">", query{"seq": max(from, 1), "batch": most, "max_bytes": answerBytes, "next_by_subj": filter})
}

func (rd *reader) pageBy(ctx context.Context, stream, filter string, q query) (page []*settle.Message, next, left uint64, err error) {
	err = rd.conn.patiently(ctx, func(ctx context.Context) error {
		page, next, left, err = rd.askPage(ctx, stream, filter, q)
		return err
	})
	return page, next, left, err
}

// askPage makes one batched read. left is how many messages come after the page on the
// server that answered, and next the sequence behind the page's last.
func (rd *reader) askPage(ctx context.Context, stream, filter string, q query) (page []*settle.Message, next, left uint64, err error) {
	err = rd.direct(ctx, stream, [][]byte{q.json()}, func(msg *nats.Msg, _ asker) (bool, error) {
		if status := directStatus(msg); status != "" {
			switch {
			case status == "204":
				left, err = strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)
				return true, err
			case status == "404" && next == 0: // no message at or after this sequence
				return true, nil
			case status == "503":
				return false, nats.ErrNoResponders
			}
			return false, fmt.Errorf("%w: status %s %s", errIncomplete, status, msg.Header.Get("Description"))
		}
		raw, err := directMsg(msg)
		if err != nil {
			return false, err
		}
		if next = raw.Seq + 1; matches(filter, raw.Subject) {
			page = append(page, raw)
		}
		return false, nil
	})
	return page, next, left, err
}

// matches reports whether filter matches subject. The filter is a subject, or ends
// in * (one more token) or in > (at least one).
func matches(filter, subject string) bool {
	if last := filter[len(filter)-1]; last != '*' && last != '>' {
		return filter == subject
	}
	rest, ok := strings.CutPrefix(subject, filter[:len(filter)-1])
	return ok && rest != "" && (filter[len(filter)-1] == '>' || !strings.Contains(rest, "."))
}

// endOfBatch reads the status that ends a batched read. Only two statuses make
// it complete: "404 No Results", and the end marker with nothing pending. The
// server also says "404 Message Not Found" if it could not load a stored
// message, and sends the end marker after it cut an answer at its byte limit
// (nats-server 2.15, stream.go, getDirectMulti).
func endOfBatch(status string, h nats.Header) (done bool, err error) {
	text := h.Get("Description")
	switch {
	case status == "404" && text == "No Results":
		return true, nil
	case status == "204" && h.Get("Nats-Num-Pending") == "0":
		return true, nil
	case status == "204":
		return false, fmt.Errorf("%w: %s more were pending", errCut, h.Get("Nats-Num-Pending"))
	case status == "503":
		return false, nats.ErrNoResponders
	default:
		return false, fmt.Errorf("%w: status %s %s", errIncomplete, status, text)
	}
}
