package fileimport

import (
	"fmt"
	"io"

	"orderpost/internal/gateway/door"
)

// mostUnfinished bounds the imports of one client that arrive, or are being checked or stored.
const mostUnfinished = 16

// arrivals are the files of one client that arrive at the moment.
type arrivals struct {
	files int
	bytes int64 // that came until now
}

// arrival is a file that arrives. It counts against the client's share before it is kept:
// otherwise many files at once could fill the disk.
type arrival struct {
	i    *Imports
	r    door.FileRequest
	body io.Reader
	n    int64
	fail error // why the client has no room for it
}

// arrive admits a file. The error is that of a client that has too much under way or on disk
// already. The caller calls leave.
func (i *Imports) arrive(r door.FileRequest, body io.Reader) (*arrival, error) {
	if err := i.store.Announced(r.Bytes); err != nil {
		return nil, refusal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.arriving[r.By.Name]
	if now == nil {
		now = new(arrivals)
	}
	kept, unfinished := i.kept(r.By.Name)
	if unfinished += now.files; unfinished >= mostUnfinished {
		return nil, &door.FileError{Kind: door.FileTooMany, Where: r.By.Name, Seen: fmt.Sprintf("%d of its imports arrive, or are being checked or stored", unfinished), Do: "wait for them"}
	}
	if i.beyond(r, kept+now.bytes) {
		return nil, noShare(r)
	}
	now.files++
	i.arriving[r.By.Name] = now
	return &arrival{i: i, r: r, body: body}, nil
}

// kept returns the bytes on disk and the unfinished imports of a client.
func (i *Imports) kept(by string) (bytes int64, unfinished int) {
	for _, l := range i.desk.Looks() {
		if l.By.Name != by {
			continue
		}
		bytes += l.Bytes
		if s := stateOf(&l); s == door.Checking || s == door.Storing {
			unfinished++
		}
	}
	return bytes, unfinished
}

// beyond reports whether a client's other files leave no room for one more.
func (i *Imports) beyond(r door.FileRequest, others int64) bool {
	return r.Shared && others > i.store.Limits().MaxTotal/2
}

func noShare(r door.FileRequest) error {
	return &door.FileError{Kind: door.FileNoRoom, Where: r.By.Name, Seen: "its files take half of all room already", Do: "wait for those that arrive, and GET the results of imports that are done: their files go within an hour"}
}

// lookEach is after how many bytes an arrival looks again whether there is room.
const lookEach = 1 << 20

// Read implements io.Reader.
func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.i.mu.Lock()
	defer a.i.mu.Unlock()
	all := a.i.arriving[a.r.By.Name]
	look := a.n/lookEach != (a.n+int64(n))/lookEach
	a.n += int64(n)
	all.bytes += int64(n)
	if look {
		if kept, _ := a.i.kept(a.r.By.Name); a.i.beyond(a.r, kept+all.bytes-a.n) {
			a.fail = noShare(a.r)
			return n, a.fail
		}
	}
	return n, err
}

// leave ends the arrival.
func (a *arrival) leave() {
	a.i.mu.Lock()
	defer a.i.mu.Unlock()
	all := a.i.arriving[a.r.By.Name]
	all.bytes -= a.n
	if all.files--; all.files == 0 {
		delete(a.i.arriving, a.r.By.Name)
	}
}
