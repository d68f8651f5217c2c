package settle

import "time"

// RequestTimeout bounds the wait for one answer of the broker. A request that
// takes longer has not failed. It is unconfirmed and must be looked up before
// it is repeated.
const RequestTimeout = 5 * time.Second
