package http1

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"orderpost/internal/submit/answer"
)

var (
	errTooLong  = errors.New("answer is longer than 256 KiB")
	errEncoding = errors.New("answer has a Content-Encoding that was not asked for")
)

// undo decodes gzip, although no Content-Encoding was asked for. It returns at most
// [answer.MaxBody] bytes, and an error for other encodings.
func undo(body []byte, encoding string) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		if len(body) == 0 {
			return nil, nil
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return readBounded(z)
	default:
		return body, errEncoding
	}
}

// readBounded reads at most [answer.MaxBody] bytes. With an error it returns what it
// read before.
func readBounded(r io.Reader) ([]byte, error) {
	var buf bytes.Buffer
	_, err := buf.ReadFrom(io.LimitReader(r, answer.MaxBody+1))
	if buf.Len() > answer.MaxBody {
		buf.Truncate(answer.MaxBody)
		err = errTooLong
	}
	return buf.Bytes(), err
}
