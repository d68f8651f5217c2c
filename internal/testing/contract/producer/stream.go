package producer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// apiError is how JetStream reports a refusal.
type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

const codeNotFound = 10037

// stored is a message as it lies in a stream.
type stored struct {
	Subject string `json:"subject"`
	Headers string `json:"hdrs"`
	Data    string `json:"data"`
}

// body gives the message's payload, which the API carries in base64.
func (m *stored) body() ([]byte, error) { return base64.StdEncoding.DecodeString(m.Data) }

// getMessage reads one message at the stream's leader; nil where there is
// none. A client's "direct get" may ask a follower, which may not have it yet.
func getMessage(ctx context.Context, nc *nats.Conn, stream string, query map[string]any) (*stored, error) {
	request, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	reply, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message *stored   `json:"message"`
	}
	switch err := json.Unmarshal(reply.Data, &answer); {
	case err != nil:
		return nil, err
	case answer.Error != nil && answer.Error.Code == codeNotFound:
		return nil, nil
	case answer.Error != nil:
		return nil, answer.Error
	case answer.Message == nil:
		return nil, fmt.Errorf("stream %s answered neither a message nor an error", stream)
	}
	return answer.Message, nil
}
