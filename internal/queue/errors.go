package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// ErrUnreachable is returned by Open when no broker answered in time. The
// message names the address.
var ErrUnreachable = settle.ErrUnreachable

// errLinkBroken means that the connection broke while a request waited.
var errLinkBroken = errors.New("the connection to the broker broke")

// ErrSilent is returned by PutSoon and SwapSoon.
var ErrSilent = errors.New("the broker answers, and has not stored this: its disk may be full or failing. Workers that cannot store results post nothing. " +
	"To be sure, stop the workers' processes")

// errUnconfirmed means that the broker's confirmation did not come. The write
// may have happened.
var errUnconfirmed = errors.New("write not confirmed by the broker")

// fullCodes say that the broker has no room.
var fullCodes = []jetstream.ErrorCode{codeStoreFailed, codeInsufficient, codeStorageExceeded}

// passingCodes say that the cluster is busy for the moment, not that it has no
// room.
var passingCodes = []jetstream.ErrorCode{codeClusterNotAvailable, codeStreamOffline, codeTooManyRequests}

// Codes and texts of JetStream's API errors.
const (
	codeStoreFailed          = 10077 // "already pending" and "stream full" share it; the text tells them apart
	codeWrongLastSeq         = 10071
	codeWrongLastSeqConstant = 10164 // with replicas: another write to the subject is in flight
	codeInsufficient         = 10023
	codeStorageExceeded      = 10047
	codeClusterNotAvailable  = 10008
	codeStreamOffline        = 10118
	codeTooManyRequests      = 10167
	codeStreamCreate         = 10049
	codeMessageTooLarge      = 10054 // larger than the stream's max_msg_size
	codeIDInProcess          = 10158 // with replicas: an earlier publish of this ID has no answer yet
	textSubjectIsFull        = "maximum messages per subject exceeded"
)

// writeError classifies JetStream's answer to a conditional write.
func writeError(err error) error {
	var api *jetstream.APIError
	switch {
	case !errors.As(err, &api):
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	case api.ErrorCode == codeWrongLastSeq || api.ErrorCode == codeWrongLastSeqConstant:
		return settle.ErrStale
	case slices.Contains(passingCodes, api.ErrorCode):
		return fmt.Errorf("%w: %s (code %d)", errUnconfirmed, api.Description, api.ErrorCode)
	default:
		return fmt.Errorf("%w: %s (code %d)", settle.ErrStorage, api.Description, api.ErrorCode)
	}
}
