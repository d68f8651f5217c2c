package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
)

// awaiting is what waits for an approval, the oldest first.
type awaiting struct{ Imports, Acts []approvalLine }

// approvalLine is an import or an act that waits for an approval.
type approvalLine struct {
	Link, Name, Whom, Why string
	At                    time.Time
	// Mine: the person who looks may approve it.
	Mine bool
}

// awaitingOf lists what waits for an approval.
func awaitingOf(v *visit, f *imports.Feeding) (w awaiting) {
	if f == nil {
		return w
	}
	mine := func(a *imports.Approval) bool {
		return v.person().Approve && approval.Counts(v.person().actor().Known) && !a.Asker.Same(v.person().Name) && a.GivenBy(v.person().Name) == nil
	}
	waiting, acts := f.Awaiting()
	for _, token := range waiting {
		a := f.Approvals.Imports[token]
		batch := imports.ImportName(token)
		name, _ := v.s.batches.name(v.Context(), batch)
		w.Imports = append(w.Imports, approvalLine{Link: approval.Address(batch), Name: name, Whom: whom(a), Why: a.Why, At: a.At, Mine: mine(a)})
	}
	for _, id := range acts {
		a := f.Approvals.Acts[id]
		w.Acts = append(w.Acts, approvalLine{Link: approval.ActAddress(id), Name: a.Why, Whom: whom(a), Why: asker(a), At: a.At, Mine: mine(a)})
	}
	for _, lines := range [][]approvalLine{w.Imports, w.Acts} {
		slices.SortStableFunc(lines, func(a, b approvalLine) int { return a.At.Compare(b.At) })
	}
	return w
}

// asker says who asked for an act.
func asker(a *imports.Approval) string {
	if a.Asker != nil {
		return a.Asker.Name + " asked for it"
	}
	return "a command asked for it"
}

// whom says which logins are missing.
func whom(a *imports.Approval) string {
	switch {
	case len(a.Importers) > 1 && a.Asker != nil:
		return "a login that did not import it: " + strings.Join(a.Importers, ", ") + " did"
	case a.Asker != nil:
		return "a login other than " + a.Asker.Name
	case len(a.Given) == 1:
		return "a login other than " + a.Given[0].Name
	default:
		return "two logins"
	}
}

type approvalsPage struct {
	Rule     string // which imports need an approval; "" = none
	Several  bool
	Acts     string // which acts; "" = none
	Awaiting awaiting
}

func showApprovals(v *visit) error {
	ctx := v.brief()
	f, err := imports.ReadFeeding(ctx, v.queue(), 0)
	if err != nil {
		return err
	}
	rule := f.Approvals.ReadRule()
	p := approvalsPage{Several: !rule.All, Acts: rule.Acts(), Awaiting: awaitingOf(v, f)}
	if rule.Imports() {
		p.Rule = rule.What()
	}
	v.live = true
	return v.render("approvals", "Approvals", p)
}

// assessKind is the kind of the jobs that read what waits of an import. Their subject is
// the batch.
const assessKind = "assess"

// assessLasts is how long what was read is shown without reading it again.
const assessLasts = 10 * time.Minute

// assessment is what waits of an import, and where its approval stands.
type assessment struct {
	matter
	Batch string
	name  string
	imp   *imports.Import
	Seen  *imports.Assessment // nil while it is read
	job   *jobs.Job           // reads it
}

// assessmentOf reads what waits of the import that the request names, or shows how far that is.
func assessmentOf(v *visit) (*assessment, error) {
	a := &assessment{Batch: v.given("batch")}
	ctx, q := v.brief(), v.s.queue
	var err error
	if a.imp, err = imports.ReadImport(ctx, q, a.Batch); err != nil {
		return a, err
	}
	if a.feeding, err = imports.ReadFeeding(ctx, q, 0); err != nil {
		return a, err
	}
	token := imports.ImportToken(a.Batch)
	if entry := a.feeding.Approvals.Imports[token]; entry != nil {
		a.entry = *entry
	} else if a.imp == nil {
		return a, notFound(fmt.Sprintf("Nothing is known about an approval of an import %q.", shorten(plain(a.Batch), 100)), "The page Approvals lists what waits for one.")
	}
	if a.name = a.Batch; a.imp != nil {
		a.name, _ = importName(a.imp)
	}
	a.words, a.page, a.field = importWording, approval.Address(a.Batch), fact{"batch", a.Batch}
	a.words.title = "import " + shorten(a.name, 60)
	waits, err := q.Waiting.Of(ctx, token)
	if err != nil {
		return a, err
	}
	rule := a.feeding.Approvals.ReadRule()
	seen := "" // what another login approved, perhaps at another console
	if a.end() != queue.ToTheEnd {
		seen = a.entry.Digest
	}
	spec := jobs.Spec{Kind: assessKind, Title: "Read " + a.words.title, Subject: a.Batch,
		Key: fmt.Sprintf("%s %s %d %s %s", assessKind, a.Batch, a.entry.At.UnixNano(), rule.Column, seen)}
	var result any
	a.job, result, err = readAhead(v, spec, func(job *jobs.Job) bool { return a.isOf(job, waits) }, func(ctx context.Context, job *jobs.Job) (any, error) {
		return imports.Assess(ctx, q, a.Batch, rule.Column, a.end(), func(read int) {
			job.Tell(jobs.Progress{Done: int64(read), Of: int64(max(waits, uint64(read)))}) //nolint:gosec // counts of orders
		})
	})
	if a.Seen, a.Read = result.(*imports.Assessment); a.Read && err == nil {
		a.decideOn(v)
	}
	return a, err
}

// decideOn fills in what a decision is about.
func (a *assessment) decideOn(v *visit) {
	a.mark = mark(a.Batch, a.Seen.Bound, a.entry.Why, a.entry.Given, a.entry.Asker, a.entry.Refused, a.entry.At)
	a.facts = facts{{"Orders", count(a.Seen.Count)}, {"SHA-256 of what waits", a.Seen.Digest}}
	for _, c := range a.Seen.Columns {
		a.facts = append(a.facts, fact{"Sum of " + c.Name, c.Sum.String()})
	}
	about := journal.About{Details: map[string]string{}}
	if a.imp != nil {
		about.Details["file"], about.Details["content"] = a.imp.File, a.imp.Content
	}
	if up := a.entry.Asker; up != nil {
		about.Details["uploaded_by"] = up.Name
	}
	a.decision = approval.Decision{Batch: a.Batch, Seen: a.Seen, About: v.journaled(about)}
}

// end is the sequence up to which an approval that somebody gave goes: a second login
// approves the same. Otherwise it is all that waits.
func (a *assessment) end() uint64 {
	if len(a.entry.Given) > 0 && !a.entry.Whole() {
		return a.entry.UpTo.Seq
	}
	return queue.ToTheEnd
}

// isOf reports whether a job's result is what waits now.
func (a *assessment) isOf(job *jobs.Job, waits uint64) bool {
	result, err := job.Result()
	seen, ok := result.(*imports.Assessment)
	if err != nil || !ok || time.Since(job.Ended()) > assessLasts {
		return false
	}
	n := uint64(seen.Count) //nolint:gosec // a count
	return n == waits || n < waits && a.end() != queue.ToTheEnd
}

type approvalPage struct {
	*assessment
	Reading  *jobs.Progress
	Facts    facts
	Warnings []string
	By       string // the column of Largest
	Largest  []imports.AssessedRow
	Fates    []fateLine
}

func showApproval(v *visit) error {
	if v.query("act") != "" {
		return showAct(v)
	}
	a, err := assessmentOf(v)
	if err != nil {
		return err
	}
	p := approvalPage{assessment: a}
	p.stand()
	title := "Approve " + a.words.title
	if !a.Read {
		progress := a.job.Progress()
		p.Reading, v.live = &progress, true
		return v.render("approval", title, p)
	}
	if v.refreshes() { // the page was opened while the import was read
		v.w.Header().Set("HX-Redirect", v.URL.RequestURI())
	}
	a.offer(v)
	p.fill(v.query("by"))
	return v.render("approval", title, p)
}

// stand says where the approval stands.
func (p *approvalPage) stand() {
	e := &p.entry
	switch token := imports.ImportToken(p.Batch); {
	case e.Refused != nil:
		p.Word, p.Tone, p.Says = "refused", "bad", e.Refused.Name+" refused it at "+stamp(e.Refused.At)+": "+sentence(e.Refused.Note)+" Its orders are withdrawn. If some still wait, cancel the import."
	case p.Seen != nil && p.Seen.Count == 0:
		p.Word, p.Tone, p.Says = "nothing waits", "info", "Nothing of it waits any more: it was sent, or cancelled."
	case p.feeding.AwaitsApproval(token) && e.Why != "":
		p.Word, p.Tone, p.Says = "needs approval", "warn", sentence(e.Why)+" It waits for "+whom(e)+"."
	case p.feeding.AwaitsApproval(token):
		p.Word, p.Tone, p.Says = "not asked yet", "info", "No worker has asked for an approval yet: it is still being stored, or no worker runs."
	case e.Whole():
		p.Word, p.Tone, p.Says = "approved", "good", "Its orders take their turns, until "+stamp(e.Until)+"."
	default:
		p.Word, p.Tone, p.Says = "needs none", "info", "It needs no approval."
	}
	p.Given = p.standers("uploaded the file")
}

// fill fills in what waits.
func (p *approvalPage) fill(by string) {
	seen, rule := p.Seen, p.feeding.Approvals.ReadRule()
	p.list()
	warn := func(n int, one, many string) {
		if n > 0 {
			p.Warnings = append(p.Warnings, plural(n, one, many))
		}
	}
	warn(seen.Repeated, "order number is there more than once.", "order numbers are there more than once.")
	warn(seen.Unreadable, "order can never be sent: a worker ends it as invalid.", "orders can never be sent: a worker ends them as invalid.")
	if p.imp != nil {
		p.Fates = fates(p.imp.Counts)
		if left := p.imp.Rows - seen.Count; left > 0 {
			p.Warnings = append(p.Warnings, plural(left, "row of the file is", "rows of the file are")+" not among what waits: they were left out, sent or settled before, or withdrawn. An approval is about what waits.")
		}
		if p.imp.Storing || !p.imp.Complete() {
			p.Warnings = append(p.Warnings, fmt.Sprintf("The import was not stored to its end: %s of %s rows.", count(p.imp.Done), count(p.imp.Rows)))
		}
	}
	if p.By = by; p.By == "" {
		p.By = cmp.Or(rule.Column, p.widest())
	}
	p.Largest = seen.Column(p.By).Largest
}

// widest is the column with the largest sum.
func (p *approvalPage) widest() string {
	var widest *imports.Column
	for _, c := range p.Seen.Columns {
		if widest == nil || c.Sum.Abs().GreaterThan(widest.Sum.Abs()) {
			widest = c
		}
	}
	if widest == nil {
		return ""
	}
	return widest.Name
}

// list lists the facts.
func (p *approvalPage) list() {
	seen, rule := p.Seen, p.feeding.Approvals.ReadRule()
	add := p.Facts.say
	add("Orders that wait", count(seen.Count))
	if imp := p.imp; imp != nil {
		add("File", imp.File)
		add("Sheet", imp.Sheet)
		add("SHA-256 of the file", imp.Content)
		add("Rows of the file", count(imp.Rows))
		by := cmp.Or(imp.By, "not recorded")
		if p.entry.Asker == nil {
			by += " (a name that nobody checked)"
		}
		add("Imported by", by)
	}
	add("Batch", p.Batch)
	add("SHA-256 of what waits", seen.Digest)
	if seen.Count > 0 {
		add("Stored", stamp(seen.Oldest)+" to "+stamp(seen.Newest))
		if rule.Imports() {
			add("Must be approved until", stamp(seen.Oldest.Add(rule.Lapse)))
		}
	}
	if seen.Later > 0 {
		add("Wait for a time", plural(seen.Later, "order", "orders")+", the last one for "+stamp(seen.Latest))
	}
}
