package oracle

import (
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// letter is a dead letter that is stored, or was.
type letter struct {
	intent, body string
	line         int
	gone         bool
}

// filed reports whether a letter is stored.
func (c *course) filed(seq uint64) bool { return c.letters[seq] != nil && !c.letters[seq].gone }

// checkStored checks that a letter holds the body of the intent that it is about.
func (o *Oracle) checkStored(e *Event) {
	c := o.course(e.OrderNo)
	if c.letters == nil {
		c.letters = make(map[uint64]*letter)
	}
	c.letters[e.Seq] = &letter{e.Intent, e.Body, e.Line, false}
	if l := e.Letter; l != nil && (l.BodyHash != e.Body || !c.has(func(s *submission) bool {
		return s.id == l.IntentID && s.body == e.Body && s.batch == l.Batch && s.source == l.Source && s.is(l.Position)
	})) {
		o.find(Letters, c.orderNo, nil, "letter %d is not what %s was: from %q, %q", e.Seq, l.IntentID, l.Batch, l.Source)
	}
}

// checkRemoved checks that nobody removes a letter that the record names.
func (o *Oracle) checkRemoved(e *Event) {
	c := o.course(e.OrderNo)
	l := c.letters[e.Seq]
	if l == nil {
		return
	}
	l.gone = true
	if n := len(c.records); n > 0 && c.records[n-1].rec.Names(e.Seq) && !o.settings.Outside {
		o.find(Letters, c.orderNo, []int{l.line, c.records[n-1].line}, "%s removes letter %d, which the record names", e.Process, e.Seq)
	}
}

// checkNamed checks that the letters that a record names were stored and are about the intents that it says, and
// that it hides none of the ones that prev named before another outcome took their place.
func (o *Oracle) checkNamed(c *course, e *Event, prev *order.Record) {
	rec := e.Record
	is := func(seq uint64, intent, body string, bodyKnown bool) {
		l := c.letters[seq]
		if seq != 0 && (l == nil || l.intent != intent || bodyKnown && l.body != body) {
			o.find(Letters, c.orderNo, nil, "%s (%s) names letter %d as that of %s, which it is not", rec.IntentID, rec.Word, seq, intent)
		}
	}
	is(rec.Letter, rec.IntentID, rec.BodyHash, true)
	for i := range rec.Conflicts {
		x := &rec.Conflicts[i]
		is(x.Letter, x.IntentID, x.BodyHash, true)
	}
	for i := range rec.Earlier {
		is(rec.Earlier[i].Letter, rec.Earlier[i].IntentID, "", false)
	}
	if prev == nil {
		return
	}
	byPerson := !slices.Equal(rec.Interventions, prev.Interventions)
	open := rec.Outcome() == order.OutcomeNone || rec.Outcome() == order.OutcomeCancelled
	for _, seq := range prev.Letters() {
		l := c.letters[seq]
		if rec.Names(seq) || byPerson || l == nil || len(prev.Conflicts) >= 100 {
			continue
		}
		refused := prev.Refused(seq)
		switch {
		case rec.LetterOf(l.intent) != 0 && rec.LetterOf(l.intent) != seq: // another one of the same intent
		case open,
			refused != nil && (l.body == "" || l.body != rec.BodyHash),
			prev.Letter == seq && l.body != rec.BodyHash && prev.After(rec.Position, rec.Birth): // the answer to an earlier intent came late
			o.find(Letters, c.orderNo, []int{l.line}, "%s (%s) hides letter %d of %s, whose body nothing else holds", rec.IntentID, rec.Word, seq, l.intent)
		}
	}
	if n := len(rec.Interventions); byPerson && n > 0 {
		if seq := settle.LetterDropped(rec.Interventions[n-1].Did); seq != 0 && !prev.Names(seq) {
			o.find(Letters, c.orderNo, nil, "%s, which the record did not name", rec.Interventions[n-1].Did)
		}
	}
}

// checkFiled checks that the letter of an intent is stored, and named, when the intent is acknowledged
// (R4).
func (o *Oracle) checkFiled(c *course, e *Event) {
	if len(c.records) == 0 || o.settings.Outside {
		return
	}
	rec := c.records[len(c.records)-1].rec
	if seq := rec.LetterOf(e.Intent); rec.NeedsLetterOf(e.Intent) && !c.filed(seq) {
		o.find(Letters, c.orderNo, nil, "%s is acknowledged (%s), and its letter %d is not there", e.Intent, rec.Word, seq)
	}
}

// endLetters checks that the letters are stored that the last record names, and that it names one if it needs one.
func (o *Oracle) endLetters(c *course, last *observed) {
	rec := last.rec
	for _, seq := range rec.Letters() {
		if !c.filed(seq) {
			o.find(Letters, c.orderNo, []int{last.line}, "letter %d of %s is not there", seq, rec.Word)
		}
	}
	if rec.NeedsLetter() && rec.Letter == 0 {
		o.find(Letters, c.orderNo, []int{last.line}, "%s without a letter", rec.Word)
	}
}
