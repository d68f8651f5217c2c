package sandbox

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"sync"
	"time"
)

// dripEvery is the interval between two bytes of a GarbageDrip answer.
const dripEvery = 50 * time.Millisecond

// garbage answers 200 with an unreadable body.
func (s *Server) garbage(x *exchange) {
	form := x.settings.Faults.GarbageForm
	if form == GarbageMixed {
		form = GarbageHTML + GarbageForm(x.decision.draws.bits(drawGarbage)%uint64(GarbageBinary-GarbageHTML+1))
	}
	h := x.w.Header()
	h["Content-Type"] = jsonType
	x.reply = x.reply[:0]
	switch form {
	case GarbageHTML:
		h.Set("Content-Type", "text/html; charset=utf-8")
		x.reply = append(x.reply, "<html><body><h1>Welcome</h1></body></html>"...)
	case GarbageTruncated:
		x.reply = append(x.reply, `{"code":0,"message":"ok","data":{"order_`...)
	case GarbageBinary:
		x.reply = append(x.reply, "\x00\xff\xfe{\"code\":\x80"...)
	case GarbageGzipBomb:
		h.Set("Content-Encoding", "gzip")
		s.send(x, AnswerGarbage, http.StatusOK, gzipBomb())
		return
	}
	s.send(x, AnswerGarbage, http.StatusOK, x.reply)
	switch form {
	case GarbageEndless:
		s.stream(x, bytes.Repeat([]byte(" "), 64<<10), 0)
	case GarbageDrip:
		s.stream(x, []byte(" "), dripEvery)
	}
}

// gzipBomb is a gigabyte of zeros, compressed to a megabyte. It repeats one small gzip
// stream a thousand times, because gzip streams can be concatenated.
var gzipBomb = sync.OnceValue(func() []byte {
	var one bytes.Buffer
	z := gzip.NewWriter(&one)
	z.Write(make([]byte, 1<<20)) //nolint:errcheck // a bytes.Buffer takes everything
	z.Close()                    //nolint:errcheck // likewise
	return bytes.Repeat(one.Bytes(), 1<<10)
})

// stream sends a piece repeatedly until the client closes the connection.
func (s *Server) stream(x *exchange, piece []byte, every time.Duration) {
	out := http.NewResponseController(x.w)
	for {
		select {
		case <-s.closed:
			panic(http.ErrAbortHandler)
		case <-x.r.Context().Done():
			return
		case <-time.After(every):
		}
		if _, err := x.w.Write(piece); err != nil || out.Flush() != nil {
			return
		}
	}
}
