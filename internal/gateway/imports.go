package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/gateway/door"
)

const mediaCSV = "text/csv"

// takeFile keeps a file of orders, which is then checked and imported.
func (c *call) takeFile() error {
	if c.s.files == nil {
		return problemOf(noImports, "", c.s.noFiles, "send the orders to /v1/orders, as "+mediaLines)
	}
	r := door.FileRequest{Client: c.client.name, By: c.actor(), Bytes: c.ContentLength, Rate: c.client.limits.rate(), Shared: c.s.clients != nil, Parameters: c.query}
	if p := c.fileKind(&r); p != nil {
		return p
	}
	defer c.bodyEnds()()
	i, err := c.s.files.Take(c.Context(), r, &uploadBody{c})
	if err != nil {
		if p := c.recheck(); p != nil {
			return p
		}
		if _, clients := errors.AsType[*door.FileError](err); !clients {
			return err // the door's own disk
		}
		return importProblem(err)
	}
	_ = c.control.SetReadDeadline(time.Time{})
	c.w.Header().Set("Location", "/v1/imports/"+i.ID)
	c.answer(http.StatusAccepted, importOf(i))
	return nil
}

// uploadBody is a body that may take as long as it needs, while it moves.
type uploadBody struct{ *call }

// Read implements io.Reader.
func (p *uploadBody) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.s.bodyTimeout))
	if revoked := p.revoked(); revoked != nil { // what ended it has set another deadline
		return 0, revoked
	}
	n, err := p.Body.Read(b)
	if revoked := p.recheck(); revoked != nil {
		return n, revoked // at the end, too: the file must not be imported
	}
	if errors.Is(err, io.EOF) {
		p.read = true
	}
	return n, err
}

// fileKind reads what the headers say of a file.
func (c *call) fileKind(r *door.FileRequest) *problem {
	accepted := c.s.files.MediaTypes()
	given := c.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || !slices.Contains(accepted, kind) {
		return badMedia("Content-Type", given, "send one of "+strings.Join(accepted, ", "), accepted...)
	}
	for _, name := range orderHeaders {
		if c.Header.Get(name) != "" { // without it, the orders would be others
			parameter := strings.ToLower(strings.TrimPrefix(name, "Order-"))
			return problemOf(badRequest, "header "+name, "it is for single orders", "give the parameter "+parameter+" instead: it is for all orders of the file")
		}
	}
	r.Media, r.Charset = kind, params["charset"]
	switch given := strings.ToLower(c.Header.Get("Content-Encoding")); given {
	case "", "identity", "gzip", "zstd": // the content itself tells them apart
		return nil
	default:
		return badMedia("Content-Encoding", given, "send the file as it is, or as gzip or zstd", accepted...)
	}
}

// actor is the client as the journal has it.
func (c *call) actor() journal.Actor {
	known := journal.Token
	switch {
	case c.s.clients == nil:
		known = journal.ByProcess
	case c.Header.Get("Authorization") == "":
		known = journal.Certificate
	}
	return journal.Actor{Name: "client " + c.client.name, Known: known}
}

// findImport returns the import that a request names. An import that the client may not see is
// answered like an unknown one.
func (c *call) findImport() (i door.Import, err error) {
	if c.s.files == nil {
		return i, problemOf(noImports, "", c.s.noFiles, "ask the door that took the file")
	}
	if i, err = c.s.files.Look(c.PathValue("id")); err != nil {
		return i, importProblem(err)
	}
	if i.By != c.actor().Name && !c.client.may(ReadAll) {
		return i, noSuchImport()
	}
	return i, nil
}

func noSuchImport() *problem {
	return problemOf(unknownImport, "import", "there is none, or it is another client's, or its file is gone: its final results were fetched an hour ago, or nobody asked for a week", "ask the door that took the file; the outcomes of its orders are kept")
}

// countWait is how long an answer waits for a count of outcomes.
const countWait = 2 * time.Second

// importState answers how an import stands.
func (c *call) importState() error {
	i, err := c.findImport()
	if err != nil {
		return err
	}
	if i.Fates != nil && (i.State == door.AllStored || i.State == door.Cancelled) {
		ctx, cancel := context.WithTimeout(c.Context(), countWait)
		defer cancel()
		if i.Outcomes, err = c.s.files.Outcomes(ctx, i.ID); err != nil {
			return importProblem(err)
		}
	}
	c.answer(http.StatusOK, importOf(i))
	return nil
}

// cancelImport withdraws what was not sent of an import.
func (c *call) cancelImport() error {
	i, err := c.findImport()
	if err != nil {
		return err
	}
	ctx, cancel := c.until(c.s.storeTimeout)
	defer cancel()
	if i, err = c.s.files.Cancel(ctx, i.ID, c.actor()); err != nil {
		return importProblem(err)
	}
	status := http.StatusOK
	if i.State == door.Cancelling || i.Withdrawn != nil && i.Withdrawn.Open > 0 {
		status = http.StatusAccepted
	}
	c.answer(status, importOf(i))
	return nil
}

// importResults answers with every row of an import and the outcome of its order.
func (c *call) importResults() error {
	i, err := c.findImport()
	if err != nil {
		return err
	}
	f := &feed{call: c, media: mediaCSV + "; charset=utf-8"}
	if err := c.s.files.Results(c.Context(), i.ID, asWriter{f}); err != nil {
		p := c.recheck()
		if p == nil {
			p = importProblem(err)
		}
		p.cut = f.begun
		return p
	}
	return nil
}

// asWriter writes parts of an answer.
type asWriter struct{ *feed }

// Write implements io.Writer.
func (w asWriter) Write(part []byte) (int, error) {
	if p := w.recheck(); p != nil {
		return 0, p
	}
	if err := w.write(part); err != nil {
		return 0, err
	}
	return len(part), nil
}

// imported is how an import stands, with the problem of one that is refused.
type imported struct {
	door.Import
	Problem *problem `json:"problem,omitempty"`
}

func importOf(i door.Import) *imported {
	out := &imported{Import: i}
	if i.Why != nil {
		out.Problem = importProblem(i.Why)
	}
	return out
}

// fileKinds are the problems that errors of files are.
var fileKinds = map[door.FileErrorKind]kind{door.FileParameter: badRequest, door.FileUnusable: invalidImport, door.FileTooLarge: tooLarge, door.FileBrokenOff: badRequest, door.FileNoRoom: noRoom,
	door.FileTooMany: tooMany, door.FileUnready: notReady}

// importProblem returns the problem that an error of an import is.
func importProblem(err error) *problem {
	bad, ok := errors.AsType[*door.FileError](err)
	if !ok {
		return lookupProblem(err)
	}
	k := fileKinds[bad.Kind]
	switch {
	case bad.Kind == door.FileUnknown:
		return noSuchImport()
	case bad.Kind == door.FileBrokenOff && errors.Is(err, os.ErrDeadlineExceeded):
		k = slowBody
	}
	p := problemOf(k, bad.Where, bad.Seen, bad.Do)
	if p.cause = err; bad.Kind == door.FileTooMany {
		_ = p.retry(retryFull)
	}
	return p
}
