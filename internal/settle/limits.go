package settle

import "time"

// answerTimeout bounds the wait for one answer of the broker.
const answerTimeout = 5 * time.Second

// cancelAtOnce is how many outcomes a cancellation writes at once.
const cancelAtOnce = 256
