package console

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"time"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
)

const (
	// uploadPause is how long an upload may stand still.
	uploadPause = time.Minute
	// uploadRest is how much of a refused file is still read. A browser shows the
	// answer only after it has sent the file.
	uploadRest = 4 << 30
	// formSlack is what a form adds to a file.
	formSlack = 64 << 10
)

// receiveUpload takes a file. It never holds more than a few chunks of it.
func receiveUpload(v *visit) error {
	store := v.s.desk.Store()
	v.Body = &paced{ReadCloser: v.Body, control: http.NewResponseController(v.w)}
	defer func() { _, _ = io.CopyN(io.Discard, v.Body, uploadRest) }()
	form, err := v.MultipartReader()
	if err != nil {
		return badRequest("That was not a form with a file.", "Choose a file on the page Imports.")
	}
	if err := store.Announced(v.ContentLength - formSlack); err != nil {
		return err
	}
	name, content, err := sent(form)
	_, odd := errors.AsType[textproto.ProtocolError](err)
	switch {
	case errors.Is(err, io.EOF):
		return badRequest("No file was chosen, and no cells were pasted.", "Choose one on the page Imports.")
	case errors.Is(err, multipart.ErrMessageTooLarge), odd:
		return &problem{status: http.StatusBadRequest, what: "The name of the file cannot be read, and nothing was kept.", todo: "Give the file a short name of letters and digits, and upload it again.", cause: err}
	case err != nil:
		return &problem{status: http.StatusBadRequest, what: "The upload broke off, and nothing was kept.", todo: "Upload the file again.", cause: err}
	}
	u, err := store.Keep(v.Context(), name, uploader(v), content)
	if err != nil {
		return err
	}
	checkItself(v, u.ID)
	return v.done(there(u.ID), "")
}

// checkItself starts the check of a file that just came, with the names that the console
// proposes for its columns. It leaves a file alone whose columns need a person: the page
// of the upload says what they lack.
func checkItself(v *visit, id string) {
	_, header, err := v.s.desk.Top(id, "", topRows)
	if err != nil {
		return
	}
	h, err := v.s.desk.HeadAt(id, "", header, samples)
	if err != nil {
		return
	}
	set := importer.Reading{HeaderRow: header}
	if set.Mapping, _ = remembered(v, h); set.Mapping.IsZero() || h.Try(set.Mapping) != nil {
		set.Mapping = h.Propose()
	}
	if h.Try(set.Mapping) != nil {
		return
	}
	arranged, err := v.s.desk.Arrange(id, uploader(v), "", set)
	if err != nil || v.s.desk.Check(id, uploader(v), arranged) != nil {
		return
	}
	_ = v.s.desk.Wait(v.within(previewWait), id) // the page shows either the result or the progress
}

// remembered returns the mapping of the last import of a file with the same columns, and that import; nil = none is known.
func remembered(v *visit, h *importer.Head) (importer.Mapping, *imports.Import) {
	ctx := v.brief()
	all, err := imports.Imports(ctx, v.queue())
	if err != nil { // then the names alone tell
		return importer.Mapping{}, nil
	}
	return h.Remembered(all)
}

// pasted is the name of a file of cells that were pasted.
const pasted = "pasted.csv"

// sent returns the first file of a form, or else the cells that were pasted into it. Error: io.EOF if it has neither.
func sent(form *multipart.Reader) (name string, content io.Reader, err error) {
	for {
		part, err := form.NextPart()
		if err != nil {
			return "", nil, err
		}
		name = map[string]string{"file": part.FileName(), "cells": pasted}[part.FormName()]
		first := bufio.NewReader(part)
		if _, err := first.Peek(1); name != "" && !(name == pasted && errors.Is(err, io.EOF)) { // an empty file has an error of its own
			return name, first, nil
		}
	}
}

// paced lets an upload take as long as it needs, while it moves.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(uploadPause)) // a test's writer has none
	return p.ReadCloser.Read(b)
}

// eventEvery is the interval between two events of a job's progress.
const eventEvery = 500 * time.Millisecond

// uploadEvents streams the progress of an upload's job, until that ends.
func uploadEvents(v *visit, u *uploads.Look) error {
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no") // proxies pass each event at once
	control := http.NewResponseController(v.w)
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for job := v.s.desk.Job(u.ID); job != nil; job = v.s.desk.Job(u.ID) {
		if writeEvent(v.w, job.Progress()) != nil || control.Flush() != nil {
			return nil // nobody is there to read it
		}
		select {
		case <-tick.C:
		case <-v.Context().Done():
			return nil
		}
	}
	_, _ = io.WriteString(v.w, "event: end\ndata: {}\n\n")
	return nil
}

func writeEvent(w io.Writer, p jobs.Progress) error {
	data, err := json.Marshal(struct {
		Percent int    `json:"percent"`
		Text    string `json:"text"`
	}{p.Percent(), plain(describeProgress(p))})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "data: %s\n\n", data)
	return err
}
