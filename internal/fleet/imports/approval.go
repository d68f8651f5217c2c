package imports

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Approvals are what needs a second person, and who approved what: one value of the fleet's
// bucket. The feeder moves nothing of an import that needs an approval and has none.
type Approvals struct {
	// Rule is an ApprovalRule, as the worker that started last with one spelled it.
	Rule string `json:"rule,omitempty"`
	// Imports are by their tokens, Acts of persons by their ids in the journal.
	Imports map[string]*Approval `json:"imports,omitempty"`
	Acts    map[string]*Approval `json:"acts,omitempty"`
}

// Approval is where the approval of one import or act stands.
type Approval struct {
	// At is when the first of what follows was noted.
	At time.Time `json:"at"`
	// Asker is the login that imported the file last, or asked for the act; nil = nobody
	// whose login was checked.
	Asker *Signature `json:"asker,omitempty"`
	// Importers are the logins that imported the file so far, by name. Somebody who only resumes
	// an import stands for it, too, and whoever began it cannot approve it in their place.
	Importers []string `json:"importers,omitempty"`
	// Why is what the import exceeds; "" = no feeder has asked for an approval. Of an act it
	// says what was asked for.
	Why string `json:"why,omitempty"`
	// Intention is where the journal has what was asked for, if this is an act. No entry
	// there can be changed or deleted.
	Intention string `json:"intention,omitempty"`
	// Given are the approvals of Bound, of different logins, until Until.
	Given []Signature `json:"given,omitempty"`
	Bound
	Until time.Time `json:"until,omitzero"`
	// Compared says that a feeder compared what is stored with Bound.Digest.
	Compared bool `json:"compared,omitempty"`
	// Refused says who refused the import; nil = nobody.
	Refused *Signature `json:"refused,omitempty"`
}

// Signature is a login that stands for something.
type Signature struct {
	Name string    `json:"name"`
	How  string    `json:"how"` // login or proxy
	At   time.Time `json:"at"`
	// Note is a reason.
	Note string `json:"note,omitempty"`
	// Act is the act in the journal.
	Act string `json:"act,omitempty"`
}

// Same reports whether two logins are one person's: names that differ only in case do not
// make two persons.
func (s *Signature) Same(name string) bool { return s != nil && strings.EqualFold(s.Name, name) }

// Logins is how many logins an import or an act needs.
const Logins = 2

// Whole reports whether two logins stand for it: that of the upload, or that asked, and one
// that approved and has not imported it, or two that approved.
func (a *Approval) Whole() bool {
	n := len(a.Given)
	if a.Asker != nil && slices.ContainsFunc(a.Given, func(s Signature) bool { return !a.Imported(s.Name) }) {
		n++
	}
	return n >= Logins && a.Refused == nil
}

// Imported reports whether a login imported the file, or asked for the act.
func (a *Approval) Imported(name string) bool {
	return a.Asker.Same(name) || slices.ContainsFunc(a.Importers, func(by string) bool { return strings.EqualFold(by, name) })
}

// Decided returns when a login decided last; zero = none did.
func (a *Approval) Decided() (at time.Time) {
	for i := range a.Given {
		at = a.Given[i].At
	}
	if a.Refused != nil {
		at = a.Refused.At
	}
	return at
}

// GivenBy returns the approval of a login; nil = it gave none.
func (a *Approval) GivenBy(name string) *Signature {
	for i := range a.Given {
		if a.Given[i].Same(name) {
			return &a.Given[i]
		}
	}
	return nil
}

// ReadRule returns what the rule says. One that cannot be read asks for approval of
// everything: a newer version wrote it.
func (a *Approvals) ReadRule() ApprovalRule {
	r, err := ParseApprovalRule(a.Rule)
	if err != nil {
		return ApprovalRule{All: true, ResubmitUnknown: true, Resolve: true, Limit: true, Lapse: defaultLapse}
	}
	return r
}

// approvalsKey is written by compare-and-set: by feeders, and by consoles when people approve.
const approvalsKey = "waiting.approvals"

// mostApprovals bounds how many imports and acts wait for approval at once: every change writes
// all.
const mostApprovals = 500

// AwaitsApproval reports whether an import is not fed because it needs an approval, by its
// token, as far as a feeder has found out.
func (f *Feeding) AwaitsApproval(token string) bool {
	rule, a := f.Approvals.ReadRule(), f.Approvals.Imports[token]
	switch {
	case !rule.Imports() || token == settle.NoImport:
		return false
	case a == nil || a.Why == "":
		return rule.All
	default:
		return !a.Whole() || !time.Now().Before(a.Until)
	}
}

// Awaiting lists what needs an approval of a person: imports by their tokens, and acts by their ids.
func (f *Feeding) Awaiting() (imports, acts []string) {
	for token, a := range f.Approvals.Imports {
		if f.AwaitsApproval(token) && a.Why != "" && a.Refused == nil {
			imports = append(imports, token)
		}
	}
	for id, a := range f.Approvals.Acts {
		if a.Refused == nil && !a.Whole() {
			acts = append(acts, id)
		}
	}
	slices.Sort(imports)
	slices.Sort(acts)
	return imports, acts
}

// HoldOf returns what keeps what waits of an import where it is, by its token: a person's
// pause, or the lack of an approval. nil = neither.
func (f *Feeding) HoldOf(token string) *Hold {
	if h := f.Holds[token]; h != nil || !f.AwaitsApproval(token) {
		return h
	}
	rule := f.Approvals.ReadRule()
	return &Hold{ForApproval: rule.What()}
}

// HeldBy is HoldOf an import, by its name; nil also if nothing of it waits for an approval.
func HeldBy(ctx context.Context, q *queue.Queue, batch string) (*Hold, error) {
	f, err := ReadFeeding(ctx, q, 0)
	if err != nil {
		return nil, err
	}
	h := f.HoldOf(ImportToken(batch))
	if h != nil && h.ForApproval != "" {
		if waits, err := q.Waiting.StillWaits(ctx, ImportToken(batch), queue.ToTheEnd); err != nil || !waits {
			return nil, err
		}
	}
	return h, nil
}

// ChangeApprovals changes the approvals by compare-and-set. change is called again if
// somebody else was first; it returns false if there is nothing to change, and its error
// ends the call.
func ChangeApprovals(ctx context.Context, q *queue.Queue, change func(*Approvals) (bool, error)) error {
	return queue.Again(ctx, func() error {
		f, err := ReadFeeding(ctx, q, 0)
		if err != nil {
			return err
		}
		if f.Approvals.Imports == nil {
			f.Approvals.Imports = make(map[string]*Approval)
		}
		if f.Approvals.Acts == nil {
			f.Approvals.Acts = make(map[string]*Approval)
		}
		changed, err := change(&f.Approvals)
		if err != nil || !changed {
			return err
		}
		if len(f.Approvals.Imports)+len(f.Approvals.Acts) > mostApprovals {
			return fmt.Errorf("%d imports and acts wait for approval already: approve or refuse some of them", mostApprovals)
		}
		_, err = q.Bucket().Swap(ctx, approvalsKey, f.Approvals, f.approvalsRevision)
		return err
	})
}
