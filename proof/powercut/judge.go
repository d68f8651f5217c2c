package powercut

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/queue/embedded"
)

// place is where a message is found again. All streams but the journal keep one message
// for each subject; in the journal, seq tells messages apart.
type place struct {
	stream, subject string
	seq             uint64
}

func placeOf(stream, subject string, seq uint64) place {
	if !strings.HasSuffix(stream, "_JOURNAL") {
		seq = 0
	}
	return place{stream, subject, seq}
}

// due returns the messages that the broker had confirmed before a cut and that nobody
// had asked it to remove: the last one of each subject.
func (t *trace) due(cut int) map[place]event {
	last := make(map[place]event)
	bySeq := make(map[string]map[uint64]string)
	for _, e := range t.events {
		if e.line > cut {
			break
		}
		if e.removed {
			continue
		}
		at := placeOf(e.stream, e.subject, e.seq)
		if e.seq > last[at].seq {
			last[at] = e
		}
		if bySeq[e.stream] == nil {
			bySeq[e.stream] = make(map[uint64]string)
		}
		bySeq[e.stream][e.seq] = e.subject
	}
	for _, e := range t.events {
		if e.line > cut {
			break
		}
		switch {
		case !e.removed:
		case e.subject == "":
			if at := placeOf(e.stream, bySeq[e.stream][e.seq], e.seq); last[at].seq == e.seq {
				delete(last, at)
			}
		default: // a purge spares what is stored after it; nobody does that here
			for at, confirmed := range last {
				if at.stream == e.stream && covers(e.subject, at.subject) && confirmed.line < e.line {
					delete(last, at)
				}
			}
		}
	}
	for at, e := range last {
		if e.passing {
			delete(last, at)
		}
	}
	return last
}

// covers reports whether a filter with wildcards covers a subject.
func covers(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || token != "*" && token != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

// loss is what a state lacks.
type loss struct {
	// reason is short and the same for losses of one kind.
	reason string
	detail string
}

func (l *loss) Error() string { return l.reason + ": " + l.detail }

// judge starts the broker on a state and looks for every confirmed message. It returns a
// *loss if one is missing.
func (t *trace) judge(ctx context.Context, s *state, dir string, without []string) error {
	d := t.build(s)
	if err := d.save(dir); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return find(ctx, dir+"/data", t.due(s.cut), without)
}

func find(ctx context.Context, dataDir string, due map[place]event, without []string) error {
	b, err := embedded.Start(embedded.Config{Dir: dataDir, Listen: "127.0.0.1:0", NoSync: true, Without: without})
	if err != nil {
		return &loss{"the broker does not start", err.Error()}
	}
	defer b.Stop()
	nc, err := nats.Connect(b.URL, nats.Token(b.Token), nats.Timeout(time.Minute))
	if err != nil {
		return fmt.Errorf("a broker that has just started: %w", err)
	}
	defer nc.Close()
	streams := make(map[string][]event)
	for _, e := range due {
		streams[e.stream] = append(streams[e.stream], e)
	}
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		wanted := streams[name]
		have, err := lastMessages(ctx, nc, name)
		if err != nil {
			return err
		}
		slices.SortFunc(wanted, func(a, b event) int { return cmp.Compare(a.seq, b.seq) })
		for _, e := range wanted {
			got, ok := have[placeOf(name, e.subject, e.seq)]
			switch {
			case have == nil:
				return &loss{"stream " + name + " is gone", fmt.Sprintf("%d confirmed messages with it, the last is %s, sequence %d", len(wanted), wanted[len(wanted)-1].subject, wanted[len(wanted)-1].seq)}
			case !ok || got.seq < e.seq:
				return &loss{"a confirmed message of " + name + " is gone", fmt.Sprintf("%s, sequence %d", e.subject, e.seq)}
			case got.seq == e.seq && !bytes.Equal(got.data, e.data):
				return &loss{"a message of " + name + " has another content", fmt.Sprintf("%s, sequence %d: %.80q instead of %.80q", e.subject, e.seq, got.data, e.data)}
			}
		}
	}
	return nil
}

type message struct {
	seq  uint64
	data []byte
}

// lastMessages returns the last message at each place of a stream; nil = no stream.
func lastMessages(ctx context.Context, nc *nats.Conn, stream string) (map[place]message, error) {
	inbox, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = inbox.Unsubscribe() }()
	have := make(map[place]message)
	for after := uint64(0); ; {
		req, err := json.Marshal(map[string]any{"next_by_subj": ">", "batch": 5000, "seq": after + 1})
		if err == nil {
			err = nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox.Subject, req)
		}
		if err != nil {
			return nil, err
		}
		for {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			m, err := inbox.NextMsgWithContext(ctx)
			cancel()
			if errors.Is(err, nats.ErrNoResponders) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("reading stream %s: %w", stream, err)
			}
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204", "404": // the end
				return have, nil
			default:
				return nil, fmt.Errorf("reading stream %s: status %s %s", stream, status, m.Header.Get("Description"))
			}
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return nil, err
			}
			have[placeOf(stream, m.Header.Get("Nats-Subject"), seq)] = message{seq, m.Data}
			after = seq
		}
	}
}
