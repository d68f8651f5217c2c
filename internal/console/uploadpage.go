package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/files/xlsx"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
)

// refusal makes a page of what a person can do something about.
func refusal(err error) error {
	status := map[uploads.Kind]int{uploads.Unusable: http.StatusUnprocessableEntity, uploads.TooLarge: http.StatusRequestEntityTooLarge,
		uploads.BrokenOff: http.StatusBadRequest, uploads.NoRoom: http.StatusInsufficientStorage, uploads.Busy: http.StatusConflict,
		uploads.Unready: http.StatusConflict, uploads.Changed: http.StatusConflict, uploads.Gone: http.StatusNotFound}[uploads.KindOf(err)]
	if status == 0 {
		return unannounced(err)
	}
	r, _ := errors.AsType[*uploads.Refusal](err)
	return &problem{status: status, what: sentence(withoutFlags(r)), todo: "Go back to the upload.", cause: err}
}

// there is the address of an upload's page.
func there(id string) string { return "/upload/" + id }

// uploader names the person for the record.
func uploader(v *visit) uploads.Person {
	return uploads.Person{Name: v.person().Name, How: v.person().How, From: v.s.client(v.Request)}
}

type uploadPage struct {
	Limits  uploads.Config
	Uploads []uploadLine
}

// uploadLine is an upload in the list.
type uploadLine struct {
	uploads.Upload
	Word, Tone, Says string
	Until            time.Time
}

func showUploads(v *visit) error {
	p := uploadPage{Limits: v.s.desk.Store().Limits()}
	for _, u := range v.s.desk.Looks() {
		line := uploadLine{Upload: u.Upload, Until: u.UsedAt.Add(p.Limits.Retention)}
		if !u.FetchedAt.IsZero() {
			line.Until = u.FetchedAt.Add(p.Limits.Grace)
		}
		line.Word, line.Tone, line.Says = standing(&u)
		p.Uploads = append(p.Uploads, line)
		v.live = v.live || u.Job != nil
	}
	return v.render("upload", "Upload", p)
}

// standing says in a word and a sentence how an upload stands.
func standing(u *uploads.Look) (word, tone, says string) {
	switch i := u.Import; {
	case u.Job != nil && u.Job.Kind == uploads.ImportKind:
		return "importing", "info", describeProgress(u.Job.Progress())
	case u.Job != nil:
		return "checking", "info", describeProgress(u.Job.Progress())
	case i != nil && i.State == uploads.Done:
		if i.Summary.Stored < i.Summary.Rows {
			return "imported", "good", fmt.Sprintf("%s of %s enqueued.", count(i.Summary.Stored), plural(i.Summary.Rows, "row", "rows"))
		}
		return "imported", "good", plural(i.Summary.Rows, "row", "rows") + "."
	case i != nil && i.State == uploads.Interrupted:
		return "interrupted", "warn", sentence(i.Error) + " Resume it, or cancel it."
	case i != nil && i.State == uploads.Cancelled:
		return "cancelled", "info", sentence(i.Error)
	case i != nil && i.State == uploads.Failed:
		return "failed", "bad", sentence(i.Error)
	case u.Checked == nil:
		return "uploaded", "info", "Look at its columns and check it."
	case u.Checked.Stopped != "":
		return "unusable", "bad", sentence(u.Checked.Stopped)
	case u.Checked.Summary.Invalid > 0:
		return "bad rows", "warn", fmt.Sprintf("%s of %s cannot be sent.", plural(u.Checked.Summary.Invalid, "row", "rows"), count(u.Checked.Summary.Rows))
	default:
		return "ready", "good", plural(u.Checked.Summary.Rows, "row", "rows") + ", all can be sent."
	}
}

// describeProgress writes the progress of a job for people.
func describeProgress(p jobs.Progress) string {
	if p.Hindrance != "" {
		return fmt.Sprintf("%s of %s rows done. It goes on by itself when it can: %s.", count(p.Done), count(p.Of), strings.TrimSuffix(p.Hindrance, "."))
	}
	switch p.Step {
	case uploads.Waiting:
		return "It waits for another check."
	case uploads.Reading:
		return fmt.Sprintf("Reading the file: %s of %s.", size(p.Done), size(p.Of))
	case uploads.Checking:
		return fmt.Sprintf("Checking every row: %s of %s.", size(p.Done), size(p.Of))
	case uploads.Trying:
		return fmt.Sprintf("Waiting for the first orders: %s of %s have an outcome. The rest goes once all are accepted.", count(p.Done), count(p.Of))
	case uploads.Showing:
		return fmt.Sprintf("Adding up: %s of %s.", size(p.Done), size(p.Of))
	case uploads.Rejecting:
		return "Writing the file with the bad rows."
	default:
		return fmt.Sprintf("Importing: %s of %s rows done.", count(p.Done), count(p.Of))
	}
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return count(n>>30) + " GiB"
	case n >= 10<<20:
		return count(n>>20) + " MiB"
	case n >= 10<<10:
		return count(n>>10) + " KiB"
	default:
		return plural(n, "byte", "bytes")
	}
}

type uploadedPage struct {
	*uploads.Look
	Word, Tone, Says string
	Percent          int
	Failed           string
	// Stopped is why the file cannot be imported; empty = it can.
	Stopped string
	// HeadError is why the columns cannot be read; empty = they can.
	HeadError string
	// Sheets lists the sheets of a workbook if there are several.
	Sheets []string
	Head   *importer.Head
	// Top are the first rows, and Header the line of the one that names the columns.
	Top      []importer.TopRow
	Header   int
	Proposed bool
	// Like is the import whose columns were the same, if its mapping is proposed.
	Like      *likeImport
	Columns   []columnField
	Mapping   importer.Mapping
	Constants string
	Accepted  []string
	Types     []importer.Type
	Encodings []string
	Kinds     []warningLine
	Questions []*question
	// Grid are the first rows, of those with problems if there are some; nil = the check did not get so far.
	Grid  *gridPage
	Fates []fateLine
	// Approval is where people approve what was imported; empty = nothing waits for that.
	Approval string
}

// likeImport is an earlier import, whose mapping a page proposes.
type likeImport struct{ Name, Link string }

// columnField is a column with what the form shows of it.
type columnField struct {
	importer.Column
	Chosen importer.Type
	As     string
}

type warningLine struct {
	importer.WarningKind
	What, Advice string
}

const (
	// samples is how many rows the columns' form shows.
	samples = 3
	// topRows is how many rows a person sees who says which one names the columns.
	topRows = 20
)

func showUpload(v *visit, u *uploads.Look) error {
	p := uploadedPage{Look: u, Types: append(importer.Types(), importer.LeaveOut), Encodings: importer.Encodings()}
	p.Word, p.Tone, p.Says = standing(u)
	if p.Job != nil {
		v.live, p.Percent = true, p.Job.Progress().Percent()
		return v.render("uploaded", u.Name, p)
	}
	if v.refreshes() {
		// The page was opened while a job ran, and only its part "live" is refreshed: what
		// belongs to the end of the job is outside of that.
		v.w.Header().Set("HX-Redirect", v.URL.RequestURI())
	}
	if u.Failure != nil {
		p.Failed = sentence(withoutFlags(u.Failure))
	}
	if c := u.Checked; c != nil {
		for _, kind := range c.Summary.WarningKinds {
			what, advice := kind.Meaning(c.Summary.Format, false)
			p.Kinds = append(p.Kinds, warningLine{kind, what, advice})
		}
		p.Questions = questions(c)
		if c.Shown && c.Summary.Rows > 0 {
			which := uploads.AllRows
			if c.Summary.Invalid > 0 {
				which = uploads.BadRows
			}
			var err error
			if p.Grid, err = gridOf(v, u, which, 1); err != nil {
				return err
			}
		}
		if p.Stopped = sentence(c.Stopped); c.Stopped != "" {
			if err := v.s.desk.Fits(u.ID, u.Settings); err != nil { // the page has fields for what to do about it
				p.Stopped = sentence(withoutFlags(err))
			}
		}
	}
	if i := u.Import; i != nil {
		p.Fates = fates(i.Summary.Counts())
		hold, err := imports.HeldBy(v.brief(), v.queue(), i.Batch)
		if err != nil {
			return err
		}
		if hold != nil && hold.ForApproval != "" {
			p.Approval, p.Word, p.Tone = approval.Address(i.Batch), "needs approval", "warn"
		}
	}
	p.arrange(v, v.FormValue("sheet"))
	if p.HeadError != "" && p.Checked == nil && p.Import == nil { // it has no columns to look at
		p.Word, p.Tone, p.Says = "not readable", "bad", "Choose how it is read, or correct it and upload it again."
		if p.Sheets != nil {
			p.Word, p.Tone, p.Says = "uploaded", "info", "Choose its sheet."
		}
	}
	return v.render("uploaded", u.Name, p)
}

// arrange fills the columns' form: with the settings, or with a proposal if nobody has
// said anything yet.
//
// sheet is the sheet of a workbook that the person wants to see; "" = that of the settings.
func (p *uploadedPage) arrange(v *visit, sheet string) {
	d := v.s.desk
	if top, _, err := d.Top(p.ID, sheet, topRows); err == nil && len(top) > 0 { // else HeadAt says what is wrong
		p.Top, p.Header = top, cmp.Or(p.Settings.HeaderRow, top[0].Line)
	}
	h, err := d.HeadAt(p.ID, sheet, 0, samples)
	if err != nil {
		if choose, ok := errors.AsType[*xlsx.ChooseSheet](err); ok {
			for _, s := range choose.Sheets {
				p.Sheets = append(p.Sheets, s.Name)
			}
		}
		p.HeadError = sentence(withoutFlags(err))
		return
	}
	p.Head, p.Mapping = h, p.Settings.Mapping
	if len(h.Sheets) > 1 {
		p.Sheets = h.Sheets
	}
	proposed := h.Propose()
	if m, imp := remembered(v, h); imp != nil && !m.Same(proposed) {
		name, _ := importName(imp)
		proposed, p.Like = m, &likeImport{name, imports.Address(imp.Batch)}
	}
	if p.Checked == nil && p.Settings.Mapping.IsZero() {
		p.Mapping = proposed
	}
	if p.Proposed = !proposed.IsZero() && p.Mapping.Same(proposed); !p.Proposed {
		p.Like = nil
	}
	for _, c := range h.Columns {
		as, kind := c.Arranged(p.Mapping)
		p.Columns = append(p.Columns, columnField{c, kind, as})
	}
	p.Constants = writeConstants(p.Mapping.Set)
	for _, field := range slices.Sorted(maps.Keys(p.Mapping.Accept)) {
		for _, code := range p.Mapping.Accept[field] {
			p.Accepted = append(p.Accepted, field+"="+string(code))
		}
	}
}

// withoutFlags returns an error's text without advice about flags of enqueue.
func withoutFlags(err error) string {
	if missing, ok := errors.AsType[*importer.MissingField](err); ok {
		what := "give the column that holds it that name below"
		if missing.Field == "timeout" {
			what += ", or give every order the same one: timeout=30 under \"The same in every order\""
		} else {
			what += ", or let the import make numbers"
		}
		return fmt.Sprintf("there is no column %s; %s", missing.Field, what)
	}
	return importer.Plain(err)
}

// yes says what a person says by accepting the cells of a field with this code.
func yes(code importer.Code, field string) string {
	switch code {
	case importer.CodeComma:
		return "The decimal sign of " + field + " is the comma"
	case importer.CodeShown:
		return "Send " + field + " with the zeros that the sheet shows"
	case importer.CodeThousands:
		return field + " has thousands separators"
	default:
		return "Such cells of " + field + " are right"
	}
}

// checkUpload sets the columns and starts the check.
func checkUpload(v *visit, u *uploads.Look) error {
	set, err := settingsOf(v, u)
	if err != nil {
		return err
	}
	return checkAgain(v, u.ID, set)
}

// checkAgain sets how to read an upload, if it is as the person saw it, and checks it.
func checkAgain(v *visit, id string, set importer.Reading) error {
	arranged, err := v.s.desk.Arrange(id, uploader(v), v.seen(), set)
	if err == nil {
		err = v.s.desk.Check(id, uploader(v), arranged)
	}
	return v.doneUnless(err, there(id), "")
}

// acceptMapping notes that cells which the check asked about are right, and checks again.
func acceptMapping(v *visit, u *uploads.Look) error {
	set := u.Settings
	field := v.field("field")
	codes := append(slices.Clone(set.Mapping.Accept[field]), importer.Code(v.field("code")))
	set.Mapping = set.Mapping.Merge(importer.Mapping{Accept: map[string][]importer.Code{field: codes}})
	return checkAgain(v, u.ID, set)
}

// chooseHeader sets the row that names the columns, with what the console proposes for them, and checks.
func chooseHeader(v *visit, u *uploads.Look) error {
	c := importer.Choices{Reading: u.Settings}
	if err := takeOptions(v, &c); err != nil {
		return err
	}
	h, err := v.s.desk.HeadAt(u.ID, c.Sheet, c.HeaderRow, samples)
	if err != nil {
		return err
	}
	c.Mapping = h.Propose()
	return checkAgain(v, u.ID, c.Reading)
}

// correctRows takes corrected cells and rows to leave out, and checks again.
func correctRows(v *visit, u *uploads.Look) error {
	set, form := u.Settings, v.PostForm
	lines, columns, was, now := form["line"], form["column"], form["was"], form["now"]
	if n := len(lines); len(columns) != n || len(was) != n || len(now) != n {
		return badRequest("That was no form of cells.", "Open the page of the upload again.")
	}
	for i := range lines {
		if was[i] == now[i] {
			continue
		}
		line, _ := strconv.Atoi(lines[i])
		column, _ := strconv.Atoi(columns[i])
		if err := set.Correct(importer.Edit{Line: line, Column: column, Was: was[i], Now: now[i]}); err != nil {
			return badRequest(sentence(err.Error())+" Nothing was changed.", "Go back to the upload.")
		}
	}
	for _, text := range form["leave"] {
		if line, _ := strconv.Atoi(text); line > 0 {
			set.LeaveOutRow(line)
		}
	}
	return checkAgain(v, u.ID, set)
}

// importUpload starts or resumes an import.
func importUpload(v *visit, u *uploads.Look) error {
	var c importer.Choices
	err := takeOptions(v, &c)
	if err == nil {
		err = optionProblem(errors.Join(c.Check(), c.CheckDeadline()))
	}
	if err != nil {
		return err
	}
	if v.field("resume") == "on" && u.Import != nil {
		c.Sending = u.Import.Sending
	}
	err = v.s.desk.Import(v.within(actTimeout), u.ID, uploader(v), v.seen(), c.Sending)
	return v.doneUnless(err, there(u.ID), "")
}

func stopUpload(v *visit) error {
	id := v.PathValue("id")
	err := v.s.desk.Stop(v.Context(), id, uploader(v), v.seen())
	return v.doneUnless(err, there(id), "Stopped. What was enqueued stays; resuming goes on behind the last confirmed row.")
}

// removeUpload says whose file would go, and removes it when that is confirmed.
func removeUpload(v *visit, u *uploads.Look) error {
	_, _, says := standing(u)
	c := &confirmation{Title: "Remove " + shorten(u.Name, 60), Button: "Remove the file", Danger: true, Back: there(u.ID), Seen: u.Mark, Inputs: []input{noteInput(false)},
		Says:  []string{"The file goes away, with its columns, its check and its bad rows. Orders that were imported from it stay."},
		Facts: []fact{{"File", u.Name}, {"Uploaded", stamp(u.At) + " by " + u.By.Name}, {"Now", says}}}
	c.Changed = "The upload has changed since you opened the page."
	if u.Did.What != "" {
		c.Changed += " " + sentence(u.Did.By.Name+" "+u.Did.What+" at "+stamp(u.Did.At))
	}
	switch {
	case u.Job != nil:
		c.Warning = "It is in use now, so it stays until that has ended."
	case u.Import != nil && u.FetchedAt.IsZero():
		c.Warning = "Nobody has saved its final results. Without the file, only a command can write them, beside the same file."
	case u.By.Name != v.person().Name:
		c.Warning = u.By.Name + " uploaded it, and you did not."
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about := journal.About{Kind: journal.Remove, Note: c.Inputs[0].Value, Details: map[string]string{"file": u.Source(), "upload": u.ID, "uploaded_by": u.By.Name}}
	if u.Import != nil {
		about.Batch = u.Import.Batch
	}
	err := v.act(about, nil, func(context.Context) error { return v.s.desk.Remove(u.ID, u.Mark) })
	return v.doneUnless(err, "/upload", "The file "+u.Name+" was removed. Orders that were imported from it stay.")
}

// fateLine is a row of the table of what became of a file's rows.
type fateLine struct {
	Meaning string
	N       int
	Bad     bool
}

func fates(counts map[string]int) []fateLine {
	var out []fateLine
	for _, fate := range importer.Fates() {
		if n := counts[string(fate)]; n > 0 {
			out = append(out, fateLine{sentence(cmp.Or(fate.Meaning(), string(fate))), n, !fate.Fine()})
		}
	}
	return out
}
