package bench

import (
	"fmt"
	"os"
	"time"
)

// fsyncDelay is how much longer an fsync takes than the disk needs for it.
type fsyncDelay time.Duration

// unwatched is the disk's own time, with nobody asked before each fsync. That takes CPU time
// even if it adds no delay, so a rate is compared with rates that were taken in the same way.
const unwatched fsyncDelay = -1

const unwatchedWord = "unwatched"

// String is what stands in the tables.
func (d fsyncDelay) String() string {
	switch {
	case d == unwatched:
		return "the disk's"
	case d == 0:
		return "the disk's, watched"
	default:
		return fmt.Sprintf("the disk's + %s", time.Duration(d))
	}
}

// parseDelays reads --fsync.
func (o *options) parseDelays() (errs []error) {
	for _, word := range o.fsync {
		delay := unwatched
		if word != unwatchedWord {
			d, err := time.ParseDuration(word)
			if delay = fsyncDelay(d); err != nil || d < 0 {
				errs = append(errs, fmt.Errorf("--fsync: %q is neither a duration nor %s", word, unwatchedWord))
			}
		}
		o.delays = append(o.delays, delay)
	}
	return errs
}

// timeFsync is the median of small appends with an fsync each.
func timeFsync(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "fsync-*")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	var took []float64
	for range 50 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began)))
	}
	return time.Duration(median(took)), nil
}
