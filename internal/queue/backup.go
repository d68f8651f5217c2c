package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/semver"

	"orderpost/internal/settle"
)

// A backup is an archive as nats-server's (package archive), compressed (s2), with the messages of all
// streams. The name of an entry is STREAM/SUBJECT. The last entry is a backupEnd as JSON.
const backupEndName = "end"

// backupEnd says what a backup holds.
type backupEnd struct {
	// Made is when the copies were consistent, by the clock of the program that made them.
	Made    time.Time           `json:"made"`
	Streams map[string]backedUp `json:"streams"`
}

// backedUp is the copy of one stream.
type backedUp struct {
	First    uint64    `json:"first"` // what comes before was removed since it was copied
	Last     uint64    `json:"last"`
	Born     time.Time `json:"born"`
	Messages uint64    `json:"messages"` // as written
}

// Backup copies the streams of an installation into one archive, while everything runs. A snapshot of the
// broker's does not suffice: it leaves out each record that is replaced while it is made (nats-server 2.15).
type Backup struct {
	q   *Queue
	zip *s2.Writer
	out *archive.Writer
	end backupEnd
}

// NewBackup begins a backup that is written to out.
func NewBackup(q *Queue, out io.Writer) *Backup {
	zip := s2.NewWriter(out)
	return &Backup{q: q, zip: zip, out: archive.NewWriter(zip), end: backupEnd{Streams: make(map[string]backedUp)}}
}

// CatchUp copies what the streams have got since the last call. It reports whether the copies are consistent:
// no record was written while it read the other streams. Then all that left them has its outcome in the copied
// records, and each letter that those name is in the copy. What is stored later is not. While orders flow, it
// has to be called again.
func (b *Backup) CatchUp(ctx context.Context) (consistent bool, err error) {
	b.end.Made = time.Now().UTC()
	streams := b.q.all()
	for _, s := range streams { // the results first; what is moved leaves the waiting room after it was stored in the next one
		for whole := false; !whole; {
			if whole, err = b.copy(ctx, s); err != nil {
				return false, err
			}
			whole = whole || s.name != b.q.bucket.stream() // a key that is written between two looks is in neither
		}
	}
	now, err := streams[0].State(ctx)
	return now.LastSeq == b.end.Streams[streams[0].name].Last, err
}

// all returns the streams in the order in which a backup reads them.
func (q *Queue) all() []Stream {
	n := q.Conn.n
	return []Stream{q.Results(), {q.reader, n.waiting, n.waitPre, false, ">"}, q.Intents(), q.Letters(), q.Journal(),
		{q.reader, q.bucket.stream(), q.bucket.prefix(), false, ">"}}
}

// copy copies what a stream has got. whole says that it got nothing more meanwhile.
func (b *Backup) copy(ctx context.Context, s Stream) (whole bool, err error) {
	had := b.end.Streams[s.name]
	now, err := s.State(ctx)
	if err != nil {
		return false, err
	}
	is := backedUp{now.FirstSeq, max(now.LastSeq, had.Last), time.Unix(0, now.Birth).UTC(), had.Messages}
	if had.Last > 0 && !had.Born.Equal(is.Born) {
		return false, fmt.Errorf("stream %s was made again while it was copied: begin anew", s.name)
	}
	err = s.Walk(ctx, had.Last+1, is.Last, func(page []*settle.Message) error {
		for _, m := range page {
			is.Messages++
			for _, name := range batchHeaders {
				delete(m.Header, name)
			}
			if err := writeArchived(b.out, s.name+"/"+m.Subject, m.Time.UnixNano(), m.Seq, encodeHeader(m.Header), m.Data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", s.name, err)
	}
	b.end.Streams[s.name] = is
	now, err = s.State(ctx)
	return now.LastSeq == is.Last, err
}

// Made says when the copies were consistent, and how many messages were written.
func (b *Backup) Made() (at time.Time, messages uint64) {
	for _, s := range b.end.Streams {
		messages += s.Messages
	}
	return b.end.Made, messages
}

// Close ends the archive. Without it, a backup counts as cut off.
func (b *Backup) Close() error {
	end, err := json.Marshal(b.end)
	if err == nil {
		err = writeArchived(b.out, backupEndName, 0, 0, nil, end)
	}
	return errors.Join(err, b.out.Close(), b.zip.Close())
}

// batchHeaders are those that the broker adds to each message of a batched read.
var batchHeaders = []string{jetstream.LastSequenceHeader, "Nats-Num-Pending"}

func writeArchived(out *archive.Writer, name string, at int64, seq uint64, header, data []byte) error {
	err := out.WriteHeader(&archive.Header{Name: name, Timestamp: at, Sequence: seq, HeaderSize: int64(len(header)), PayloadSize: int64(len(data))})
	if err == nil && len(header) > 0 {
		_, err = out.Write(header)
	}
	if err == nil && len(data) > 0 {
		_, err = out.Write(data)
	}
	return err
}

// encodeHeader returns headers as messages have them (NATS client protocol, HPUB); nothing for none.
func encodeHeader(h settle.Header) []byte {
	if len(h) == 0 {
		return nil
	}
	out := []byte("NATS/1.0\r\n")
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			out = append(out, name+": "+value+"\r\n"...)
		}
	}
	return append(out, "\r\n"...)
}

// BackupFile is a backup that is complete.
type BackupFile struct {
	open func() (io.ReadCloser, error)
	end  backupEnd
}

// ReadBackup reads a backup to its end, and so finds out whether it is whole and has the named streams. open opens it
// from its beginning; it is called once more for each stream that is restored.
func ReadBackup(open func() (io.ReadCloser, error), streams []string) (*BackupFile, error) {
	f := &BackupFile{open: open}
	seen, last := make(map[string]uint64), make(map[string]uint64)
	ended := false
	err := f.each(func(h *archive.Header, data io.Reader) error {
		stream, _, _ := strings.Cut(h.Name, "/")
		switch {
		case h.Sequence == 0 && h.Name == backupEndName:
			ended = true
			return json.NewDecoder(data).Decode(&f.end)
		case h.Sequence <= last[stream]:
			return fmt.Errorf("message %d of stream %s comes after message %d", h.Sequence, stream, last[stream])
		}
		seen[stream]++
		last[stream] = h.Sequence
		return nil
	})
	if err == nil && !ended {
		err = errors.New("it was cut off")
	}
	for name, s := range f.end.Streams {
		if err == nil && seen[name] != s.Messages {
			err = fmt.Errorf("stream %s has %d messages, and %d were written", name, seen[name], s.Messages)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not a whole backup: %w", err)
	}
	for _, name := range streams {
		if _, known := f.end.Streams[name]; !known {
			return nil, fmt.Errorf("the backup has the streams %s, and no %s: set ORDERPOST_PREFIX to that of its installation", strings.Join(slices.Sorted(maps.Keys(f.end.Streams)), ", "), name)
		}
	}
	return f, nil
}

// each passes the entries to visit, which reads as much of each as it wants.
func (f *BackupFile) each(visit func(h *archive.Header, data io.Reader) error) error {
	file, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in := archive.NewReader(s2.NewReader(file))
	for {
		h, err := in.Next() // it passes over what visit left of the former entry
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(h, in)
		}
		if err != nil {
			return err
		}
	}
}

// Made says when the copies were consistent.
func (f *BackupFile) Made() time.Time { return f.end.Made }

// ErrNotEmpty is returned by Restore if the broker has one of the streams.
var ErrNotEmpty = fmt.Errorf("a backup is restored where there is none of the streams: %w", ErrNothingMade)

// ErrNothingMade is in each error of Restore that came before it made anything.
var ErrNothingMade = errors.New("nothing was changed")

// restoringBroker is the first version of nats-server that restores package archive's format.
const restoringBroker = "2.15.0"

// Restore creates the streams of an installation from a backup, with the sequences, times and births that they
// had, on a broker (nats-server 2.15 or later) that has none of them. With missing it creates those that the broker
// lacks, and refuses one that ends before its copy does. No worker begins before all are there. So the mark that has
// them post nothing is written before the last one is restored: neither a kill of this program nor a worker that waits
// comes between. It returns the streams' names. Errors: ErrNotEmpty, ErrNothingMade.
func (q *Queue) Restore(ctx context.Context, f *BackupFile, missing bool) (names []string, err error) {
	if v := "v" + q.Conn.nc.ConnectedServerVersion(); semver.IsValid(v) && semver.Compare(v, "v"+restoringBroker) < 0 {
		return nil, fmt.Errorf("nats-server %s cannot read a backup, which %s and later can: %w", v[1:], restoringBroker, ErrNothingMade)
	}
	var lacking []streamSpec
	for _, spec := range q.Conn.cfg.streams() {
		is := f.end.Streams[spec.config.Name]
		switch have, err := q.reader.info(ctx, spec.config.Name); {
		case errors.Is(err, ErrNoStream):
			lacking = append(lacking, spec)
		case err != nil:
			return nil, fmt.Errorf("%w: %w", err, ErrNothingMade)
		case !missing:
			return nil, fmt.Errorf("%s exists: %w", spec.title(), ErrNotEmpty)
		case bornAt(have).Equal(is.Born) && have.State.LastSeq < is.Last: // nats-server 2.15 keeps what it has of it
			return nil, fmt.Errorf("%s ends at message %d, and the backup has %d: a restore was cut off, or the stream lost its end. "+
				"Remove it (in a data folder that has nothing else, the folder), and restore again: %w", spec.title(), have.State.LastSeq, is.Last, ErrNothingMade)
		}
	}
	for i, spec := range slices.Backward(lacking) { // the bucket first, for the mark, and the intents last
		onlyBucket := len(lacking) == 1 && spec.config.Name == q.bucket.stream()
		if i == 0 && !onlyBucket {
			err = q.markRestored(ctx, f)
		}
		if err == nil {
			err = q.restoreStream(ctx, spec, f)
		}
		if err == nil && onlyBucket {
			err = q.markRestored(ctx, f)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec.title(), err)
		}
		names = append(names, spec.config.Name)
	}
	slices.Reverse(names)
	return names, nil
}

// restoreStream restores one stream by the broker's own request for that.
func (q *Queue) restoreStream(ctx context.Context, spec streamSpec, f *BackupFile) error {
	is := f.end.Streams[spec.config.Name]
	spec.config.Metadata = map[string]string{bornKey: is.Born.Format(time.RFC3339Nano)}
	deliver, err := q.beginRestore(ctx, spec.config)
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	go func() { _ = out.CloseWithError(f.writeSnapshot(out, spec.config.Name, is)) }()
	defer func() { _ = in.Close() }()
	for chunk := make([]byte, restoreChunk); ; {
		n, err := io.ReadFull(in, chunk)
		if n > 0 {
			if _, err := q.sendRestore(ctx, deliver, chunk[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			_, err = q.sendRestore(ctx, deliver, nil)
			return err
		}
		if err != nil {
			return err
		}
	}
}

// restoreChunk is the size of a message that carries a part of a snapshot, and restoreBlock that of what is
// compressed at once, in bytes. A broker that syncs each message takes seconds for a few thousand of them, and gives a
// restore up if it takes longer for a block (nats-server 2.15).
const restoreChunk, restoreBlock = 32 << 10, 64 << 10

// beginRestore asks for the restore of a stream, and returns the subject that takes its snapshot.
func (q *Queue) beginRestore(ctx context.Context, config jetstream.StreamConfig) (deliver string, err error) {
	request, err := json.Marshal(map[string]any{"config": config})
	if err != nil {
		return "", err
	}
	subject := "$JS.API.STREAM.RESTORE." + config.Name
	brief, cancel := q.Conn.link.bound(ctx)
	defer cancel()
	answer, err := q.sendRestore(brief, subject, request)
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer to %s: the NATS user must be an administrator: %w", subject, err)
	}
	var begun struct {
		Deliver string `json:"deliver_subject"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &begun)
	}
	return begun.Deliver, err
}

// sendRestore sends a part of a restore, and returns the answer. The last one may take long.
func (q *Queue) sendRestore(ctx context.Context, subject string, data []byte) (answer []byte, err error) {
	ctx, cancel := q.Conn.link.within(ctx, time.Hour)
	defer cancel()
	msg, err := q.Conn.nc.RequestWithContext(ctx, subject, data)
	if err != nil || len(msg.Data) == 0 {
		return nil, err
	}
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err = json.Unmarshal(msg.Data, &refused); err == nil && refused.Error != nil {
		err = fmt.Errorf("the broker refused: %w", refused.Error)
	}
	return msg.Data, err
}

// writeSnapshot writes a stream of the backup as the broker writes a snapshot of one.
func (f *BackupFile) writeSnapshot(to io.Writer, stream string, is backedUp) error {
	zip := s2.NewWriter(to, s2.WriterBlockSize(restoreBlock))
	defer func() { _ = zip.Close() }() // it ends a goroutine
	out := archive.NewWriter(zip)
	state, err := json.Marshal(map[string]uint64{"first_seq": is.First, "last_seq": is.Last})
	if err != nil {
		return err
	}
	if err := writeArchived(out, "state.json", 1, 0, nil, state); err != nil {
		return err
	}
	err = f.each(func(h *archive.Header, data io.Reader) error {
		name, subject, _ := strings.Cut(h.Name, "/")
		if name != stream || h.Sequence < is.First {
			return nil
		}
		h.Name = subject
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(out, data)
		return err
	})
	if err == nil {
		err = writeArchived(out, "", 0, 0, nil, nil) // the mark of its end
	}
	return errors.Join(err, out.Close(), zip.Close())
}

// markRestored has workers hold until a person accepts what the backup lacks (Extents), and take all that it
// has for delivered (R2). What the broker lacks still counts as restored.
func (q *Queue) markRestored(ctx context.Context, f *BackupFile) error {
	q, err := Open(ctx, q.Conn.cfg, q.Conn.log) // a queue opens the bucket when it begins
	if err != nil {
		return err
	}
	defer q.Close()
	now, err := q.Extents.extents(ctx)
	if err != nil {
		return err
	}
	for name, s := range f.end.Streams {
		if _, there := now[name]; !there {
			now[name] = Extent{Created: s.Born, Last: s.Last}
		}
	}
	intents, waiting := now[q.Conn.n.intents], f.end.Streams[q.Conn.n.waiting]
	err = q.Ledger.MarkRestored(ctx, settle.HighWaterMark{
		Stream: intents.Created.UnixNano(), Seq: intents.Last,
		Waited: settle.StreamSeq{Seq: waiting.Last, Birth: waiting.Born.UnixNano()},
	})
	if err != nil {
		return err
	}
	return q.Extents.markRestored(ctx, now, f.end.Made)
}
