package importer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// resultColumns follow the original columns in a results file.
var resultColumns = []string{"_outcome", "_verdict", "_status", "_reason", "_attempts",
	"_first_attempt_at", "_last_attempt_at", "_response", "_created", batchColumn}

// batchColumn names the import of the row's order.
const batchColumn = "_batch"

// The values of _outcome for rows without an outcome of their own.
const (
	outcomePending  = "pending"
	outcomeConflict = status.Conflict
	outcomeNothing  = "not-enqueued"
)

// existedBefore is the value of _created if the API had an order with this number
// that is not this row's.
const existedBefore = "existed before"

// Tally counts the rows of a file by their _outcome.
type Tally map[string]int

// Open returns the number of rows whose orders are not settled.
func (t Tally) Open() int { return t[outcomePending] }

// AllAccepted reports whether every row's order was created.
func (t Tally) AllAccepted() bool {
	for word, n := range t {
		if n > 0 && word != order.OutcomeAccepted.String() {
			return false
		}
	}
	return true
}

// chunkStatuses is a chunk of rows with the statuses of their orders.
type chunkStatuses struct {
	rows     []Row
	statuses []status.OrderStatus // one for each row
}

// eachStatus looks up the orders of a checked file and passes them to visit in file
// order. The status of a bad row is empty. eachStatus does look up a row with only
// a question, because another import may have accepted it.
func (f *File) eachStatus(ctx context.Context, q *queue.Queue, visit func(rows []Row, statuses []status.OrderStatus) error) error {
	return ordered(ctx, chunksInFlight, func(ctx context.Context, submit func(func(context.Context) (chunkStatuses, error)) error) error {
		_, err := f.scan(ctx, func(rows []Row) error {
			return submit(func(ctx context.Context) (chunkStatuses, error) {
				statuses, err := f.statusesOf(ctx, q, rows)
				return chunkStatuses{rows, statuses}, err
			})
		})
		return err
	}, func(l chunkStatuses) error { return visit(l.rows, l.statuses) })
}

func (f *File) statusesOf(ctx context.Context, q *queue.Queue, rows []Row) ([]status.OrderStatus, error) {
	return statusesOf(ctx, q, len(rows), func(i int) (string, bool) {
		bad := f.problem(&rows[i])
		return rows[i].OrderNo, bad == nil || bad.IsQuestion() && rows[i].Order != nil
	})
}

// statusesOf looks up the orders of n rows. orderNo is that of a row, and says whether it is looked up; the status of
// another one is empty.
func statusesOf(ctx context.Context, q *queue.Queue, n int, orderNo func(i int) (no string, looked bool)) ([]status.OrderStatus, error) {
	var numbers []string
	var index []int
	for i := range n {
		if no, looked := orderNo(i); looked {
			numbers, index = append(numbers, no), append(index, i)
		}
	}
	found, err := status.OrderStatuses(ctx, q, numbers)
	if err != nil {
		return nil, err
	}
	out := make([]status.OrderStatus, n)
	for k, i := range index {
		out[i] = found[k]
	}
	return out, nil
}

// WriteResults writes each row of a checked file, followed by the result of its
// order, in file order and in constant memory. It returns the count of the outcomes.
// For NDJSON it writes the order number instead of the row. If w is nil, it only
// counts. as is FormatCSV, or FormatXLSX for a workbook, in which colours tell the outcomes
// apart.
func (f *File) WriteResults(ctx context.Context, q *queue.Queue, w io.Writer, as Format) (Tally, error) {
	if w == nil {
		w = io.Discard
	}
	tally := make(Tally)
	columns, header := f.original()
	if as == FormatCSV {
		for i := range header {
			header[i] = EscapeFormula(header[i])
		}
	}
	edited := len(f.o.Edits) > 0
	if edited {
		header = append(header, editedColumn)
	}
	out, escape, err := f.newRows(w, as, append(header, resultColumns...))
	if err != nil {
		return nil, err
	}
	line, kinds := make([]string, 0, len(header)+len(resultColumns)), make([]xlsx.Kind, 0, len(header))
	waiting, err := f.waitingRows(ctx, q) // first: what leaves the waiting room is in the queue, or has a result
	if err != nil {
		return nil, err
	}
	err = f.eachStatus(ctx, q, func(rows []Row, statuses []status.OrderStatus) error {
		for i := range rows {
			row := &rows[i]
			line, kinds = line[:0], kinds[:0]
			if f.head.format == FormatNDJSON {
				line = append(line, escape(row.OrderNo))
			}
			bad := f.problem(row)
			r := resultOf(row.bodyHash(), bad, &statuses[i], waiting.has(row.Number))
			for _, c := range columns {
				cell, kind := f.cellAgain(row, c, as, bad != nil && r[0] == outcomeNothing)
				line, kinds = append(line, escape(cell)), append(kinds, kind)
			}
			if edited {
				line, kinds = append(line, escape(f.editedIn(row.Line))), append(kinds, xlsx.Text)
			}
			outcome := len(line)
			tally[r[0]]++
			for _, cell := range r {
				if as == FormatXLSX {
					cell = order.Clip(cell, xlsx.MaxText-3)
				}
				line = append(line, escape(cell))
			}
			for _, cell := range f.surplus(row) {
				line = append(line, escape(cell))
			}
			if err := out.Write(line, kinds, outcome, tone(r[0])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return tally, err
	}
	return tally, out.Close()
}

// tone returns the colour of an _outcome: what a person need not look at, may look at, and
// must look at.
func tone(outcome string) xlsx.Tone {
	switch outcome {
	case order.OutcomeAccepted.String():
		return xlsx.Good
	case outcomePending, order.OutcomeCancelled.String():
		return xlsx.Quiet
	case order.OutcomeUnknown.String(), outcomeConflict:
		return xlsx.Warn
	}
	return xlsx.Bad
}

// CheckRoom returns an error if the rows of a checked file do not fit into a file of this
// format.
func (s *Summary) CheckRoom(as Format) error {
	if as == FormatXLSX && s.Rows >= xlsx.MaxRows {
		return fmt.Errorf("%d rows do not fit into a workbook's sheet, which has %d; write them as CSV", s.Rows, xlsx.MaxRows)
	}
	return nil
}

// IsResults reports whether content is a results file in the manner of this checked
// file: its header ends in the columns that WriteResults adds.
func (f *File) IsResults(content io.ReadSeeker) bool {
	o := Options{Reading: Reading{Format: FormatCSV, Encoding: UTF8, Delimiter: ","}}
	if f.head.format == FormatCSV {
		o.Delimiter = string(f.head.dialect.comma)
	}
	if is, err := isBook(content, FormatAuto); err == nil && is {
		o = Options{Reading: Reading{Format: FormatXLSX}}
	}
	t, _, closeAll, err := openOnce(content, &o)
	defer closeAll()
	return err == nil && len(t.header) >= len(resultColumns) && slices.Equal(t.header[len(t.header)-len(resultColumns):], resultColumns)
}

// resultOf fills resultColumns for one row, whose order has this body.
func resultOf(bodyHash string, bad *RowError, st *status.OrderStatus, waiting bool) [10]string {
	rec, waits := st.Record, st.Pending
	if rec.Outcome() == order.OutcomeAccepted {
		waits = nil // the order exists, another intent does not change that
	}
	switch {
	case bad != nil && (rec == nil && waits == nil || !bad.IsQuestion()):
		return [10]string{outcomeNothing, "", "", string(bad.Code) + ": " + bad.Message(), "", "", "", "", "no"}
	case st.Unreadable != nil:
		return [10]string{outcomePending, "", "", st.Unreadable.Error(), "", "", "", "", "unknown"}
	case waits != nil && differs(waits.BodyHash, bodyHash):
		return [10]string{outcomeConflict, "", "", "an order with this order_no and other fields is pending", "", "", "", "", "unknown", waits.Batch}
	case rec == nil && waits != nil:
		return [10]string{outcomePending, "", "", "waits for a worker", "", "", "", "", "no", waits.Batch}
	case rec == nil && waiting:
		return [10]string{outcomePending, "", "", "waits for its turn or its time", "", "", "", "", "no"}
	case rec == nil:
		return [10]string{outcomeNothing, "", "", "nothing is known of this order_no; it was never enqueued, its result has expired, or a stream was lost", "", "", "", "", ""}
	}
	out := [10]string{rec.Word, rec.Verdict.String(), "", rec.Reason, strconv.Itoa(rec.Attempts),
		formatTime(rec.FirstAttemptAt), formatTime(rec.LastAttemptAt), rec.Response, rec.Outcome().Created(), rec.Batch}
	if rec.Status != 0 {
		out[2] = strconv.Itoa(rec.Status)
	}
	if rec.Error != "" && rec.Error != rec.Reason {
		out[3] += ": " + rec.Error
	}
	switch outcome := rec.Outcome(); {
	case st.Lost && !waiting:
		out[0], out[3], out[8] = lost(bodyHash, rec)
	case outcome == order.OutcomeNone, waits != nil && !rec.Settles(waits.ID):
		out[0], out[8] = outcomePending, order.OutcomeNone.Created()
		if rec.Attempts == 0 {
			out[8] = order.OutcomeCancelled.Created()
		}
	case differs(rec.BodyHash, bodyHash):
		out[0], out[8] = outcomeConflict, notThisOne(outcome)
		out[3] = "the order_no has an order already, with other fields, whose outcome is " + rec.Word + " (submission " + rec.IntentID + ")"
	case outcome == order.OutcomeRejected && rec.Verdict == order.Duplicate:
		out[8] = existedBefore // our first attempt is proven, and the API had the order
	}
	return out
}

// lost returns the outcome, the reason and the value of _created for a row whose order has a
// note, but no intent in the queue any more. Such an order is in doubt if its attempt was left
// open (R3).
func lost(bodyHash string, note *order.Record) (outcome, reason, created string) {
	const why = "its intent left the queue without an outcome (a stream was lost, or somebody removed it)"
	switch other := differs(note.BodyHash, bodyHash); {
	case !note.Doubtful():
		return outcomeNothing, why + ", and no attempt created it; import the file again to send it", order.OutcomeCancelled.Created()
	case other:
		return outcomeConflict, "the order_no has an order already, with other fields, which an attempt may have created: " + why, order.OutcomeUnknown.Created()
	default:
		return order.OutcomeUnknown.String(), why + ", and an attempt may have created it; ask the API's operator, or import the file again: by default the order is sent again, and stays in doubt until the API or a person ends that", order.OutcomeUnknown.Created()
	}
}

// notThisOne returns the value of _created for a row whose number belongs to another
// order.
func notThisOne(outcome order.Outcome) string {
	if outcome == order.OutcomeAccepted {
		return existedBefore
	}
	return outcome.Created()
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Words lists the possible values of _outcome, in display order.
func Words() []string {
	var words []string
	for _, o := range order.Outcomes() {
		words = append(words, o.String())
	}
	return append(words, outcomePending, outcomeConflict, outcomeNothing)
}

// EachAccepted calls visit with the order of each good row of a checked file that the API
// accepted, by the results, with this very body. Without a queue it takes every good row.
func (f *File) EachAccepted(ctx context.Context, q *queue.Queue, visit func(*order.Order)) error {
	if q == nil {
		return f.Each(ctx, func(row *Row, bad *RowError) error {
			if bad == nil {
				visit(row.Order)
			}
			return nil
		})
	}
	return f.eachStatus(ctx, q, func(rows []Row, statuses []status.OrderStatus) error {
		for i := range rows {
			if rec := statuses[i].Record; rec.Outcome() == order.OutcomeAccepted && rec.BodyHash == rows[i].Order.BodyHash() {
				visit(rows[i].Order)
			}
		}
		return nil
	})
}

// WriteRejects writes the bad rows of a checked file. It writes the original columns
// unchanged, followed by columns that say what is wrong. The corrected file can be
// imported as it is. NDJSON lines are written unchanged, without additions. The rejects of
// a workbook are a workbook: in CSV a number in order_no would look like text, and nobody
// would ask about it any more.
func (f *File) WriteRejects(ctx context.Context, w io.Writer) error {
	if f.head.format == FormatNDJSON {
		return f.eachBad(ctx, func(row *Row, _ *RowError) error {
			_, err := fmt.Fprintln(w, row.Cells[0])
			return err
		})
	}
	columns, header := f.original()
	out, escape, err := f.newRows(w, f.head.format, append(header, rejectColumns...))
	if err != nil {
		return err
	}
	line, kinds := make([]string, 0, len(header)+4), make([]xlsx.Kind, 0, len(header))
	err = f.eachBad(ctx, func(row *Row, bad *RowError) error {
		line, kinds = line[:0], kinds[:0]
		for _, i := range columns {
			cell, kind := f.cellAgain(row, i, f.head.format, true)
			line, kinds = append(line, cell), append(kinds, kind)
		}
		column := ""
		if bad.Column > 0 && f.head.format == FormatXLSX {
			column = xlsx.ColumnName(bad.Column)
		} else if bad.Column > 0 {
			column = strconv.Itoa(bad.Column)
		}
		line = append(line, strconv.Itoa(row.Line), column, string(bad.Code), escape(bad.Message()))
		line = append(line, f.surplus(row)...)
		return out.Write(line, kinds, -1, xlsx.Plain)
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// notAvailable stands in a rejects or results file for what it cannot hold. An import asks
// about it, or refuses it. An empty cell would make a bad row look corrected.
const notAvailable = "#N/A"

// cellAgain returns a cell of a row for a rejects or results file. Where the row lacks the
// cell, it is notAvailable. So it is in the CSV of a workbook, where everything is text, if an
// import of the workbook would ask about the cell and has not sent the row.
func (f *File) cellAgain(row *Row, i int, as Format, unsent bool) (cell string, kind xlsx.Kind) {
	if i >= len(row.Cells) {
		return notAvailable, xlsx.Error
	}
	kind = kindOf(row.kinds, i)
	if unsent && as == FormatCSV && f.head.layout.asks(i, kind) {
		return notAvailable, kind
	}
	return row.Cells[i], kind
}

// surplus returns the cells of a row behind its last column. They stand at the end of the row
// in a rejects or results file, so that it is as bad as before.
func (f *File) surplus(row *Row) []string {
	if f.head.format == FormatNDJSON {
		return nil
	}
	return row.Cells[min(len(f.head.header), len(row.Cells)):]
}

func (f *File) eachBad(ctx context.Context, visit func(*Row, *RowError) error) error {
	return f.Each(ctx, func(row *Row, bad *RowError) error {
		if bad == nil {
			return nil
		}
		return visit(row, bad)
	})
}

// RejectsName returns the name of the rejects file for a path.
func (f *File) RejectsName(path string) string {
	if f.head != nil && f.head.format != FormatCSV {
		return path + ".rejects." + string(f.head.format)
	}
	return path + ".rejects.csv"
}
