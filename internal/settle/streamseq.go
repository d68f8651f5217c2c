package settle

import (
	"fmt"
	"strconv"
	"strings"
)

// StreamSeq is a sequence of one stream. A stream that is made again counts from 1 again, under another
// birth (order.Position.Birth), so a sequence alone does not say which message it means. As a text it is
// SEQ@BIRTH, with the birth to the base 36.
type StreamSeq struct {
	Seq   uint64
	Birth int64
}

// Covers reports whether q is a message of the same stream, and not stored after s.
func (s StreamSeq) Covers(q StreamSeq) bool {
	return s.Birth == q.Birth && 0 < q.Seq && q.Seq <= s.Seq
}

func (s StreamSeq) String() string {
	return strconv.FormatUint(s.Seq, 10) + "@" + strconv.FormatInt(s.Birth, 36)
}

// MarshalText implements encoding.TextMarshaler.
func (s StreamSeq) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *StreamSeq) UnmarshalText(text []byte) (err error) {
	seq, birth, _ := strings.Cut(string(text), "@")
	var out StreamSeq
	if out.Seq, err = strconv.ParseUint(seq, 10, 64); err == nil {
		out.Birth, err = strconv.ParseInt(birth, 36, 64)
	}
	if err != nil {
		return fmt.Errorf("%q is not SEQ@BIRTH: %w", text, err)
	}
	*s = out
	return nil
}
