package uploads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"orderpost/internal/jobs"
)

// Look is an upload at one moment, with its job.
type Look struct {
	Upload
	// Job is the job that runs; nil = none does.
	Job *jobs.Job
	// Failure is why the last job has no result, such as a full disk; nil = it has one,
	// or there was no job.
	Failure error
	// Mark names this state; only Look fills it in. Check, Arrange, Import, Stop and Remove take it as what the
	// person saw, and refuse with Changed if the upload is in another state.
	Mark string
}

// Did is what a person did to an upload last.
type Did struct {
	By Person `json:"by"`
	// What completes "anna …", such as "checked the file".
	What string    `json:"what"`
	At   time.Time `json:"at"`
}

// did returns what by does now.
func did(by Person, what string) Did { return Did{by, what, time.Now().UTC()} }

// Look returns an upload and its job as they are at one moment. The error is a *Refusal
// if there is no such upload.
func (d *Desk) Look(id string) (Look, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.look(id)
	if err == nil {
		l.Mark = mark(l.Upload, l.Job)
	}
	return l, err
}

// Looks returns all uploads, the latest first.
func (d *Desk) Looks() []Look {
	var out []Look
	for _, u := range d.store.List() {
		if l, err := d.look(u.ID); err == nil { // nobody removed it meanwhile
			out = append(out, l)
		}
	}
	return out
}

// look reads the job first. A job notes its result before it ends, so an upload without a
// job has the result of its last one.
func (d *Desk) look(id string) (l Look, err error) {
	l.Job, l.Failure = d.Job(id), d.Failure(id)
	l.Upload, err = d.store.Get(id)
	return l, err
}

// mark names the state of an upload and its job.
func mark(u Upload, j *jobs.Job) string {
	var state any = []any{u.Settings, u.Checked, u.Import}
	if j != nil {
		state = j.ID // while a job runs nobody changes anything but that
	}
	text, _ := json.Marshal(state) // these types have no value that cannot be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// asSeen returns an upload if it is still in the state that the person saw; saw is the
// mark of that, and "" is any. The caller holds d.mu.
func (d *Desk) asSeen(id, saw string) (Upload, error) {
	l, err := d.look(id)
	if err != nil || saw == "" || mark(l.Upload, l.Job) == saw {
		return l.Upload, err
	}
	what := "it is not as your page shows it any more"
	switch {
	case l.Job != nil && l.Job.Kind == ImportKind:
		what = l.Job.By + " imports it since " + clock(l.Job.Started)
	case l.Job != nil:
		what = l.Job.By + " checks it since " + clock(l.Job.Started)
	case l.Did.What != "":
		what = l.Did.By.Name + " " + l.Did.What + " at " + clock(l.Did.At)
	}
	return l.Upload, refuse(Changed, "nothing was done: the upload %s has changed since you opened its page: %s", strconv.Quote(l.Name), what)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }
