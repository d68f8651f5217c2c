package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// exchange is one request and its result.
type exchange struct {
	answer answer.Answer
	phase  Phase
	err    error     // why there is no complete answer
	sent   time.Time // when the request began
	ended  time.Time // when the answer was complete, or the request failed
	reused bool
}

// normalizeError turns timeouts into os.ErrDeadlineExceeded or ctx's error, which
// causeReason knows.
func normalizeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout)):
		return ctx.Err()
	case errors.Is(err, fasthttp.ErrTimeout):
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}
