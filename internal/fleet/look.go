package fleet

import (
	"context"
	"slices"
	"time"
)

// Look is Read for people, with the doors. If no worker gives a sign of life, it tries whether
// the broker stores anything: workers cannot say that they run if its disk is full.
func (c *Control) Look(ctx context.Context) (*View, error) {
	v, err := c.read(ctx, doorPrefix+">")
	if err != nil {
		return nil, err
	}
	if v.Now, err = c.bucket.Now(ctx); err != nil {
		return nil, err
	}
	if v.silent() {
		if err := c.bucket.Stores(ctx); err != nil {
			v.StoresNothing = err.Error()
		}
	}
	return v, nil
}

// silentAfter is how long all workers must be silent until Look tries a write. Each gives
// a sign of life each second.
const silentAfter = 2 * time.Second

// silent reports whether there are workers, and none gave a sign of life lately.
func (v *View) silent() bool {
	return len(v.Members) > 0 && !slices.ContainsFunc(v.Members, func(p Presence) bool { return v.age(p) <= silentAfter })
}

// lookTime bounds NothingSent of a Control: a command has more to say than this.
const lookTime = 2 * time.Second

// NothingSent reads the fleet and returns what NothingSent of its View says; "" also if
// the fleet cannot be read.
func (c *Control) NothingSent(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	v, err := c.Look(ctx)
	if err != nil {
		return ""
	}
	return v.NothingSent(time.Now())
}
