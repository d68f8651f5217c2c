package lookup

import (
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// steps says what to do next.
func (f *Finding) steps() []status.Step {
	if !f.Pending && (f.Result == nil || f.Result.ClaimsNotCreated() && len(f.Waiting) > 0) {
		switch {
		case len(f.Waiting) > 0 && f.Waiting[0].Held != "":
			name := f.Waiting[0].Batch
			if name == "" {
				name = settle.NoImport
			}
			return []status.Step{{Text: "It waits until its import goes on:", Command: "orderpost enqueue continue " + status.ShellWord(name)}}
		case len(f.Waiting) > 0 && f.NothingSent != "":
			return []status.Step{{Text: "Nothing: it waits, and " + f.NothingSent + "."}}
		case len(f.Waiting) > 0:
			return []status.Step{{Text: "Nothing: it waits, and a worker moves it into the queue."}}
		case f.NoWaiting != "":
			return []status.Step{{Text: "Look again when fewer orders wait: it may be one of them. Enqueueing it again is safe, with the same id or the same file."}}
		}
	}
	found := status.Found{Entry: settle.Entry{Record: f.Result, Seq: f.seq}, Pending: f.Pending, NothingSent: f.NothingSent}
	for _, l := range f.Letters {
		found.Letters = append(found.Letters, l.Letter)
	}
	return found.Advice(f.OrderNo)
}
