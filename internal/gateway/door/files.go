package door

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// Files is what a door does with files of orders. Package fileimport has it.
type Files interface {
	// Take keeps a file, has it checked, and has it stored as a whole if nothing is wrong
	// with it, also after a restart. Nothing is kept if there is an error.
	Take(ctx context.Context, r FileRequest, body io.Reader) (Import, error)
	// Look returns how an import stands, without Outcomes.
	Look(id string) (Import, error)
	// Outcomes counts the rows by what became of their orders: an outcome, or pending,
	// conflict, not-enqueued. It returns an older count, or nil, if ctx ends before.
	Outcomes(ctx context.Context, id string) (map[string]int, error)
	// Results writes every row with the outcome of its order, as CSV.
	Results(ctx context.Context, id string, w io.Writer) error
	// Cancel withdraws what was not sent. If ctx ends before that is done, the import is
	// still Cancelling.
	Cancel(ctx context.Context, id string, by journal.Actor) (Import, error)
	// MediaTypes lists those of the files that Take reads.
	MediaTypes() []string
	// Close stops what is under way. The next process goes on with it.
	Close()
}

// FileRequest says how to read a file, and whose it is.
type FileRequest struct {
	// Client is the name in the orders' source and batch. By is whoever brings the file.
	Client string
	By     journal.Actor
	// Media and Charset are those of the Content-Type; Charset may be empty.
	Media, Charset string
	// Bytes is the file's size; -1 = nobody knows.
	Bytes int64
	// Parameters are flags of enqueue.
	Parameters url.Values
	// Rate bounds the orders a second that leave out the waiting room; 0 = no bound.
	Rate float64
	// Shared says that other clients need room, too.
	Shared bool
}

// The states of an import.
const (
	Checking    = "checking"    // nothing is stored yet
	Refused     = "refused"     // something is wrong, and nothing is stored
	Storing     = "storing"     // nothing is wrong, and orders are being stored
	AllStored   = "stored"      // every row was dealt with
	Interrupted = "interrupted" // it goes on with the next process
	Failed      = "failed"      // it does not go on
	Cancelling  = "cancelling"
	Cancelled   = "cancelled"
)

// Import is how an import of a file stands.
type Import struct {
	ID         string    `json:"import"`
	By         string    `json:"-"`
	State      string    `json:"state"`
	Batch      string    `json:"batch,omitempty"`
	ReceivedAt time.Time `json:"received_at"`
	Rows       int       `json:"rows,omitempty"`
	// Progress is that of a check or an import that is under way.
	Progress *Progress `json:"progress,omitempty"`
	// Why is what is wrong with a file that is Refused.
	Why *FileError `json:"-"`
	// Invalid counts the bad rows, and Bad has the first of them.
	Invalid int      `json:"invalid,omitempty"`
	Bad     []BadRow `json:"bad,omitempty"`
	// Fates count the rows by what became of them when they were stored.
	Fates    map[string]int `json:"fates,omitempty"`
	Outcomes map[string]int `json:"outcomes,omitempty"`
	// Held is why the orders that wait are not sent: a pause, or an approval that the import
	// needs.
	Held string `json:"held,omitempty"`
	// Withdrawn counts the orders of an import that was cancelled.
	Withdrawn *Withdrawn `json:"withdrawn,omitempty"`
	// Error is why the import did not come to its end.
	Error string `json:"error,omitempty"`
}

// Progress is how far a check or an import is.
type Progress struct {
	Step      string `json:"step"`
	Percent   int    `json:"percent"`
	Hindrance string `json:"hindrance,omitempty"`
}

// BadRow is a row that cannot be sent.
type BadRow struct {
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"` // 0 = the whole row
	Place  string `json:"place,omitempty"`  // in a workbook, such as Orders!C17
	Name   string `json:"name,omitempty"`   // of the column
	Value  string `json:"value,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Accept lists what the parameter accept can say to take such cells as they are; none
	// = the row must be corrected.
	Accept []string `json:"accept,omitempty"`
}

// Withdrawn counts the orders of an import that was cancelled.
type Withdrawn struct {
	Cancelled int `json:"cancelled"`
	// Started counts those that are left to their workers or ended otherwise, Open those
	// that no worker has come to yet; none of these is posted any more.
	Started int `json:"started"`
	Open    int `json:"open"`
}

// FileErrorKind says what a client can do about a FileError.
type FileErrorKind int

// The kinds of errors of files.
const (
	FileParameter FileErrorKind = iota + 1 // a parameter is wrong
	FileUnusable                           // the file is wrong
	FileTooLarge
	FileBrokenOff // it did not arrive
	FileNoRoom    // the disk, or the client's share of it, is full
	FileTooMany   // the client has as many imports under way as it may
	FileUnready   // a step before this one is missing
	FileUnknown   // there is no such import, or its file is gone
)

// FileError says what is wrong with a file or a request about it.
type FileError struct {
	Kind FileErrorKind
	// Where is a parameter, a column, or a place in the file; Seen what was found there;
	// Do what to do about it. Each may be empty.
	Where, Seen, Do string
	Err             error
}

// Error returns place, problem and advice in one line.
func (e *FileError) Error() string { return Sentence(e.Where, e.Seen, e.Do) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// FilesOptions are what files need. Dir and Queue are required.
type FilesOptions struct {
	// Dir is the data folder. The files are in its subfolder "imports".
	Dir string
	// Total is what all files may take on disk, in bytes.
	Total   int64
	Queue   *queue.Queue
	Schema  *schema.Schema // nil = none
	Version string
	Log     zerolog.Logger
}

// OpenFiles opens the folder of files. The error says why there can be none.
type OpenFiles func(context.Context, FilesOptions) (Files, error)
