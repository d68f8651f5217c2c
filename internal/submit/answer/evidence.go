package answer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
)

// Evidence remembers which kinds of answer were accepted.
//
// No list of words tells every failure from a success. An acceptance therefore
// needs positive evidence: a rule says so, or the answer repeats our order_no.
// Evidence believes the first kind of answer that has neither, and logs it once.
// It does not believe any other kind from then on. If a rule says which bodies are
// accepted, it believes none that the rule does not match, unless a member says success.
//
// A duplicate proves an acceptance, too, if an earlier attempt may have created the
// order. So a status alone, such as 409, proves none: the body must say that the order
// exists. And a refusal proves that no order was created, unless its body says so.
//
// It is safe for concurrent use.
type Evidence struct {
	log zerolog.Logger

	last   atomic.Uint64 // the kind accepted last; 0 = none yet
	echoed atomic.Bool   // an acceptance has repeated its order_no

	mu    sync.Mutex
	kinds map[uint64]struct{}
	notes []string
}

// NewEvidence returns an Evidence that has seen no acceptance.
func NewEvidence(log zerolog.Logger) *Evidence { return &Evidence{log: log} }

// maxKinds is the most kinds that Evidence remembers.
const maxKinds = 256

// kindOf hashes what makes up the kind of an answer: its status, its media type
// and the shape of its body.
func kindOf(a *Answer, status int) uint64 {
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	k := splitMix64(uint64(status)) + splitMix64(maphash.String(shapeSeed, strings.ToLower(strings.TrimSpace(media)))) + a.findings.shape
	return max(k, 1)
}

// Weigh checks whether the evidence supports the verdict. If it does not, Weigh
// changes the judgement to unsure.
func (e *Evidence) Weigh(a *Answer, j *Judgement) {
	switch {
	case a.Stray:
		*j = Judgement{Verdict: order.Unsure, Failed: true, Wait: j.Wait, Reason: "the answer may be another request's",
			Detail: "it was there before the request was sent, or more follows it; its connection was closed"}
	case j.Verdict != order.Unsure && !j.otherOrderNo && a.AboutAnother(j.Verdict == order.Accepted):
		*j = e.judgeOther(a, j)
	case j.Verdict == order.Accepted:
		e.accepted(a, j)
	case j.Rule > 0: // the operator knows what it means
	case j.Verdict == order.Duplicate:
		e.duplicate(a, j)
	case j.Verdict != order.Unsure:
		notCreated(a, j)
	}
}

// WeighKept is Weigh for an answer that was kept because a rule called it a refusal. Such
// an answer is not believed as the first one of its kind: that takes a rule, a kind that
// was accepted before, or the evidence that a first answer lacks.
func (e *Evidence) WeighKept(a *Answer, j *Judgement) {
	f := &a.findings
	if j.Verdict == order.Accepted && j.Rule == 0 && !(f.ours && f.success) && !e.knows(a) {
		*j = Judgement{Verdict: order.Unsure, Reason: fmt.Sprintf("status %d, but no rule accepts it", a.Status), Detail: "an answer that a rule called a refusal needs a rule, or evidence, to be an acceptance"}
		return
	}
	e.Weigh(a, j)
}

// duplicate checks an answer whose status says that the order exists. It believes the
// status if a text says the same, or if the body has the evidence that an acceptance
// needs, and holds no text that is not known. Business refusals have the status 409, too.
func (e *Evidence) duplicate(a *Answer, j *Judgement) {
	a.Examine("")
	f := &a.findings
	like := f.object && f.contradiction == "" && !f.unclear && (f.success || f.claimed) && (f.ours || e.knows(a))
	switch {
	case !a.Complete:
		*j = Judgement{Verdict: order.Unsure, Failed: true, Reason: fmt.Sprintf("status %d, but its body was cut short or too long", a.Status)}
	case f.denied:
		*j = a.contradicted("it says that the order was not created")
	case f.otherIsNumber || !f.exists && !(like && f.other == nil): // an other that is no number may be a message
		*j = a.contradicted("nothing in it says that the order exists")
	}
}

// knows reports whether the body is of a kind that was accepted under another status.
func (e *Evidence) knows(a *Answer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc([]int{http.StatusOK, http.StatusCreated, http.StatusAccepted}, func(status int) bool {
		_, known := e.kinds[kindOf(a, status)]
		return known
	})
}

// notCreated checks an answer whose status says that no order was created.
func notCreated(a *Answer, j *Judgement) {
	a.Examine("")
	switch f := &a.findings; {
	case f.exists && !f.denied:
		*j = a.contradicted("it says that the order exists")
	case f.claimed && f.contradiction == "":
		*j = a.contradicted("it says that the order was created")
	}
}

// contradicted is undecided for an answer whose status and body disagree.
func (a *Answer) contradicted(what string) Judgement {
	return a.undecided(what, what, conditionFor(a))
}

// undecided returns the judgement of an answer that leaves the order in doubt. It holds
// the pool: later orders get such answers, too, and only a rule can tell.
func (a *Answer) undecided(but, what, rule string) Judgement {
	reason := fmt.Sprintf("status %d, but %s", a.Status, but)
	return Judgement{Verdict: order.Unsure, Reason: reason, Detail: what, Hold: a.holdReason(reason, what, rule, "")}
}

// judgeOther returns the judgement of an answer that names another order. If the
// API has repeated our order_no before, the answer is a failed request. Otherwise
// the API may use this name for a number of its own, and only a rule can tell, so
// the judgement also holds the pool.
func (e *Evidence) judgeOther(a *Answer, j *Judgement) Judgement {
	what := "it names order_no " + a.ruleLiteral(a.findings.other) + ", which is not the order's"
	out := Judgement{Verdict: order.Unsure, Failed: true, Wait: j.Wait, Reason: fmt.Sprintf("status %d, but about another order", a.Status), Detail: what}
	if !e.echoed.Load() {
		out.Hold = a.holdReason(out.Reason, what, "status == "+strconv.Itoa(a.Status), "\n    other_order_no: true   # only where the API has numbers of its own under this name")
	}
	return out
}

// accepted remembers the kind of an acceptance. Without evidence for it, accepted
// changes the judgement.
func (e *Evidence) accepted(a *Answer, j *Judgement) {
	f := &a.findings
	if f.ours && !e.echoed.Load() {
		e.echoed.Store(true)
	}
	if j.Rule > 0 { // it vouches for this answer, not for those of its kind that it does not match
		return
	}
	if j.untested && !f.success { // whatever its kind was taken for before there was this rule
		what := "a rule says which answers are accepted, and it does not match this one"
		*j = a.undecided("no rule accepts it", what, ruleFor(a))
		return
	}
	kind := kindOf(a, a.Status)
	if kind == e.last.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.kinds[kind]
	switch {
	case known:
	case f.ours && f.success:
		e.learn(kind)
	case len(e.kinds) == 0:
		e.learn(kind)
		if !f.ours {
			e.believe(a)
		}
	default:
		what := "it is of another kind than the answers accepted so far (" + describe(a) + ")"
		*j = a.undecided("an answer of another kind", what, ruleFor(a))
		return
	}
	e.last.Store(kind)
}

func (e *Evidence) learn(kind uint64) {
	if e.kinds == nil {
		e.kinds = make(map[uint64]struct{})
	}
	if len(e.kinds) < maxKinds {
		e.kinds[kind] = struct{}{}
	}
}

// believe notes and logs that a kind of answer is accepted without evidence.
func (e *Evidence) believe(a *Answer) {
	note := "taken for accepted without evidence: " + describe(a) + "; no rule says so, and the answer does not repeat the order_no"
	e.notes = append(e.notes, note)
	e.log.Warn().Str("kind", describe(a)).Str("body", a.Shown()).
		Msg("answers of this kind are taken for accepted, although no rule says so and they do not repeat the order_no: " +
			"if they do mean that the order exists, write a rule with verdict accepted into the ORDERPOST_RULES file")
}

// Notes returns the notes that a person should see.
func (e *Evidence) Notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.notes)
}

// describe describes the kind of an answer for people.
func describe(a *Answer) string {
	a.parse()
	text := "status " + strconv.Itoa(a.Status)
	if media := a.Header.Get("Content-Type"); media != "" {
		text += ", " + a.Excerpt([]byte(media), 64)
	}
	switch object, ok := a.json.(map[string]any); {
	case len(a.Body) == 0:
		text += ", an empty body"
	case ok && len(object) == 0:
		text += ", an empty object"
	case ok:
		names := slices.Sorted(maps.Keys(object))
		if more := len(names) - 8; more > 0 {
			names = append(names[:8], fmt.Sprintf("%d more", more))
		}
		text += ", members " + a.Excerpt([]byte(strings.Join(names, " ")), 200)
	}
	if a.findings.ours {
		text += ", with our order_no"
	}
	return text
}

// conditionFor returns a condition that the answer fulfils. It reads the member that
// says most.
func conditionFor(a *Answer) string {
	a.parse()
	status, f := "status == "+strconv.Itoa(a.Status), &a.findings
	switch _, object := a.json.(map[string]any); {
	case len(a.Body) > 0 && !object:
		return status + " && " + a.bodyCondition()
	case f.contradiction != "" && f.contradictionValue != nil:
		return status + " && " + a.memberCondition()
	default:
		return ruleFor(a)
	}
}

// ruleFor returns a condition that the answer fulfils, made of its status and the
// names of its top-level members.
func ruleFor(a *Answer) string {
	a.parse()
	rule := "status == " + strconv.Itoa(a.Status)
	object, _ := a.json.(map[string]any)
	if len(a.Body) == 0 {
		return rule + ` && text == ""`
	}
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i == 4 {
			break
		}
		rule += " && " + strconv.Quote(a.Excerpt([]byte(name), 64)) + " in body"
	}
	return rule
}
