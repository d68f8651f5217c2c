// Package fileimport is what the HTTP door does with a file of orders: it keeps the file,
// checks it, imports it as a whole if nothing is wrong with it, tells what became of it,
// and withdraws it. Reading, checking and storing are those of the console's uploads.
//
//	fileimport.go  the folder, its start and its end
//	request.go  taking a file: its parameters
//	arrival.go  its room, while it arrives
//	look.go     how an import stands, and its results
//	cancel.go   withdrawing an import
package fileimport

import (
	"context"
	"errors"
	"sync"

	"github.com/rs/zerolog"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/uploads"
	"orderpost/internal/gateway/door"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
)

// Imports keeps and imports files of orders. It is a door.Files.
type Imports struct {
	store *uploads.Store
	desk  *uploads.Desk
	jobs  *jobs.Jobs
	queue *queue.Queue
	log   zerolog.Logger

	journal *journal.Journal

	mu       sync.Mutex
	counts   map[string]count     // by the id of the import
	arriving map[string]*arrivals // by the name of the client
}

// Open opens the folder and goes on with the imports of an earlier process. It is a
// door.OpenFiles.
func Open(ctx context.Context, o door.FilesOptions) (door.Files, error) {
	switch {
	case o.Queue == nil:
		return nil, errors.New("it has no broker to import to")
	case o.Total == 0:
		return nil, errors.New("ORDERPOST_GATEWAY_IMPORT_TOTAL is 0")
	case o.Dir == "":
		return nil, errors.New("there is no data folder (ORDERPOST_DATA_DIR)")
	}
	store, err := uploads.Open(uploads.Config{Dir: o.Dir, Folder: "imports", MaxFile: min(uploads.DefaultMaxFile, o.Total), MaxTotal: o.Total})
	if err != nil {
		return nil, err
	}
	for _, err := range store.Unreadable() {
		o.Log.Warn().Err(err).Msg("the file of an import was left alone")
	}
	i := &Imports{store: store, jobs: jobs.NewJobs(ctx), queue: o.Queue, log: o.Log, counts: make(map[string]count), arriving: make(map[string]*arrivals),
		journal: journal.New(o.Queue, "orderpost gateway", o.Version)}
	i.desk = uploads.NewDesk(store, o.Queue, i.jobs, uploads.Journaled(i.journal, i.unwritten))
	i.desk.CheckBy(o.Schema)
	i.desk.Resume()
	return i, nil
}

// Close implements door.Files.
func (i *Imports) Close() {
	i.jobs.Close()
	i.desk.Close()
	_ = i.store.Close()
}

// join starts a job, unless one with its key runs, and waits for it until ctx ends.
func (i *Imports) join(ctx context.Context, spec jobs.Spec, run func(context.Context, *jobs.Job) (any, error)) error {
	job, err := i.jobs.Start(spec, run)
	if other, busy := errors.AsType[*jobs.BusyError](err); busy && other.Job != nil {
		job, err = other.Job, nil
	}
	if err == nil && job.Wait(ctx) == nil {
		_, err = job.Result()
	}
	return err
}

// unwritten logs what the journal lacks of an act. end is the error of the act's end.
func (i *Imports) unwritten(act *journal.Act, end error) {
	if missing := act.Unannounced(); missing != nil || end != nil {
		i.log.Error().AnErr("intention", missing).AnErr("result", end).Str("id", act.ID()).Msg("the journal lacks a part of an act")
	}
}
