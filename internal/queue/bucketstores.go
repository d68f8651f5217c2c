package queue

import (
	"context"
	"time"
)

const (
	// storesKey is the key that Stores writes. Nobody reads it.
	storesKey = "probe.stores"
	// storesTime is how long Stores waits for the confirmation.
	storesTime = time.Second
)

// Stores writes one value and returns the broker's error if it can be reached and does
// not store it: its disk may be full. Such a broker still answers reads. Stores returns
// nil if the value was stored, and where that cannot be found out: without a connection,
// without a bucket, and for a NATS user who may not write.
func (b *Bucket) Stores(ctx context.Context) error {
	if b.kv == nil || b.mayNotWrite.Load() || !b.conn.Connected() {
		return nil
	}
	denied := b.conn.outages.refused.Load()
	try, cancel := context.WithTimeout(ctx, storesTime)
	defer cancel()
	_, err := b.kv.Put(try, storesKey, []byte("{}"))
	if b.conn.outages.refused.Load() != denied { // a producer who waits would be refused each second
		b.mayNotWrite.Store(true)
		return nil
	}
	if err == nil || ctx.Err() != nil || !b.conn.Connected() {
		return nil
	}
	return err
}
