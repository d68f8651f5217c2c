package queue

import (
	"context"
	"time"
)

// Now returns the broker's time, by which the entries of the bucket are stamped. This
// machine's clock may be wrong.
func (b *Bucket) Now(ctx context.Context) (time.Time, error) {
	stream, err := b.reader.stream(ctx, b.stream())
	if err != nil {
		return time.Time{}, b.wrap(err)
	}
	return stream.CachedInfo().TimeStamp, nil
}
