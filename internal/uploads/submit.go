package uploads

import (
	"time"
)

// Submit sets how to read an upload, has it checked, and has it imported if the check
// found nothing wrong. It returns once that is stored; Resume goes on with it in the next
// process. The error says what is wrong with the settings for this file.
func (d *Desk) Submit(id string, by Person, set Settings, o ImportOptions) error {
	if _, err := d.Arrange(id, by, "", set); err != nil {
		return err
	}
	if _, err := d.store.update(id, func(u *Upload) { u.Then = &o }); err != nil {
		return err
	}
	d.carryOut(id)
	return nil
}

// Resume goes on with the uploads that were submitted to an earlier process.
func (d *Desk) Resume() {
	for _, u := range d.store.List() {
		if u.Then != nil {
			d.carryOut(u.ID)
		}
	}
}

// Leave makes Submit's work on an upload end with the job that runs.
func (d *Desk) Leave(id string) error {
	return d.store.note(id, func(u *Upload) { u.Then = nil })
}

// carryOut takes the steps of a submitted upload. A step that cannot begin, because the
// journal cannot be written or another upload has the same content, is tried again.
func (d *Desk) carryOut(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return // Resume takes it up in the next process
	}
	d.work.Go(func() {
		for pause := firstPause; d.ctx.Err() == nil; pause = min(2*pause, longestPause) {
			done, err := d.step(id)
			if done {
				return
			}
			if err == nil {
				pause = firstPause
				continue
			}
			select {
			case <-time.After(pause):
			case <-d.ctx.Done():
			}
		}
	})
}

// step takes the next step of a submitted upload and waits for its end. done says that
// none is left.
func (d *Desk) step(id string) (done bool, err error) {
	u, err := d.store.Get(id)
	if err != nil || u.Then == nil {
		return true, nil //nolint:nilerr // it was removed
	}
	switch {
	case u.Checked == nil:
		if err = d.Check(id, u.By, ""); err == nil {
			err = d.Wait(d.ctx, id)
		}
		return d.Failure(id) != nil, err
	case u.Checked.Wrong() || u.Import != nil && u.Import.State != Interrupted:
		return true, nil
	}
	if err = d.Import(d.ctx, id, u.By, "", *u.Then); err == nil {
		err = d.Wait(d.ctx, id)
		done = true // an import that was interrupted goes on in the next process
	}
	return done, err
}

// Wrong reports whether the check found something to correct or to answer.
func (c *Checked) Wrong() bool { return c.Stopped != "" || c.Summary.Invalid > 0 }
