package uploads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
)

// Person is who did something, and how the name is known (login, proxy, ...).
type Person struct {
	Name string `json:"name"`
	How  string `json:"how,omitempty"`
	// From is the address of the person's machine.
	From string `json:"from,omitempty"`
}

// Upload is what is remembered of an uploaded file.
type Upload struct {
	ID string `json:"id"`
	// Name is the name under which it came, without folders. Inner is the name of the
	// file in a zip archive.
	Name  string    `json:"name"`
	Inner string    `json:"inner,omitempty"`
	By    Person    `json:"by"`
	At    time.Time `json:"at"`
	// Size is the file's size as the importer reads it, Unpacked its size as text,
	// Bytes what it takes on disk.
	Size     int64 `json:"size"`
	Unpacked int64 `json:"unpacked"`
	Bytes    int64 `json:"bytes"`
	// Packed says that the store packed the file. Otherwise it is as it came.
	Packed bool `json:"packed,omitempty"`
	// Book says that the file is a workbook.
	Book bool `json:"book,omitempty"`

	Settings importer.Reading `json:"settings"`
	// Checked is the result of the check with these settings; nil = not checked.
	Checked *Checked `json:"checked,omitempty"`
	// Then is how to import the upload once its check found nothing wrong, without a
	// person who looks at it (Desk.Submit); nil = a person decides.
	Then *importer.Sending `json:"then,omitempty"`
	// Import is the last import; nil = there was none.
	Import *Import `json:"import,omitempty"`
	// FetchedAt is when the final results were fetched.
	FetchedAt time.Time `json:"fetched_at,omitzero"`
	// Did is what a person changed last; zero = nothing since the upload came.
	Did Did `json:"did,omitzero"`
	// UsedAt is when a person last did something with the upload.
	UsedAt time.Time `json:"used_at"`
}

// Checked is the result of a check.
type Checked struct {
	At      time.Time        `json:"at"`
	By      Person           `json:"by"`
	Took    time.Duration    `json:"took"`
	Summary importer.Summary `json:"summary"`
	// Bad lists the first bad rows.
	Bad []BadRow `json:"bad,omitempty"`
	// Stopped is why the check could not read the file to its end; empty = it could.
	// Such a file cannot be imported, not even without its bad rows.
	Stopped string `json:"stopped,omitempty"`
	// First lists the first orders as they would be sent, but for the timestamp, and Last is the last one.
	First []string `json:"first,omitempty"`
	Last  string   `json:"last,omitempty"`
	// Sums are the exact sums of the columns of numbers. MoreSums says that there are others.
	Sums     []*imports.Column `json:"sums,omitempty"`
	MoreSums bool              `json:"more_sums,omitempty"`
	// Shown says that the rows are kept for pages (Desk.Rows).
	Shown bool `json:"shown,omitempty"`
	// Rejects is the name of the file with the bad rows; empty = there is none.
	Rejects string `json:"rejects,omitempty"`
}

// BadRow is a row that cannot be sent.
type BadRow struct {
	Line    int           `json:"line"`
	Place   string        `json:"place,omitempty"`  // in a workbook, as in Orders!C17
	Column  int           `json:"column,omitempty"` // 0 = the whole row
	Name    string        `json:"name,omitempty"`   // of the column
	Value   string        `json:"value,omitempty"`  // the cell, clipped
	Code    importer.Code `json:"code"`
	Message string        `json:"message"`
	// Row is where the row begins, by which it can be left out; 0 = it cannot. Correctable says that Value is the whole
	// cell, which can be corrected.
	Row         int  `json:"row,omitempty"`
	Correctable bool `json:"correctable,omitempty"`
	// Accept is the field whose cells with this code a person may accept; empty =
	// the row must be corrected.
	Accept string `json:"accept,omitempty"`
	// Or is another code that they may accept instead; empty = there is none.
	Or importer.Code `json:"or,omitempty"`
}

// State is the state of an import.
type State string

// The states of an import.
const (
	Running     State = "running"
	Interrupted State = "interrupted" // stopped, or failed on the way; resume continues
	Done        State = "done"
	Cancelled   State = "cancelled"
	Failed      State = "failed" // resuming cannot help
)

// Import is an import of an uploaded file, over all its runs.
type Import struct {
	Batch     string    `json:"batch"`
	By        Person    `json:"by"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	State     State     `json:"state"`
	importer.Sending
	// Summary is what became of the rows.
	Summary importer.Summary `json:"summary"`
	// Error is why the import did not come to its end.
	Error string `json:"error,omitempty"`
}

// Source is the file's name in messages and in Order-Source.
func (u *Upload) Source() string {
	if u.Inner != "" {
		return u.Inner
	}
	return u.Name
}

// options returns the options of the importer for reading the file.
func (u *Upload) options() importer.Options {
	return importer.Options{Reading: u.Settings, File: u.Source()}
}

const (
	maxName = 120
	maxLine = 2000 // of an order in the preview
)

// cleanName returns the name of an uploaded file without folders and without
// characters that a header or a terminal cannot show.
func cleanName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune(`<>:"|?*`, r) {
			return '_'
		}
		return r
	}, name)
	if name = strings.TrimSpace(name); strings.Trim(name, "./") == "" {
		return "upload.csv"
	}
	return order.Truncate(name, maxName)
}

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
