package cli

import (
	"fmt"
	"io"
	stdlog "log"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// NewLogger returns the program's logger. format is json, console, or auto, which is
// console if w is a terminal. Times are UTC with milliseconds.
func NewLogger(w io.Writer, level, format string, environ map[string]string) (zerolog.Logger, error) {
	lvl, err := ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("%sLOG_LEVEL: %w", EnvPrefix, err)
	}
	switch format {
	case "json":
	case "auto":
		if !IsTerminal(w) {
			break
		}
		fallthrough
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !IsTerminal(w) || environ["NO_COLOR"] != ""}
	default:
		return zerolog.Nop(), fmt.Errorf("%sLOG_FORMAT: %q is not one of json, console, auto", EnvPrefix, format)
	}
	return zerolog.New(w).Level(lvl).Hook(utcTime{}), nil
}

// ParseLevel reads the level of a log: debug, info, warn or error.
func ParseLevel(text string) (zerolog.Level, error) {
	for _, lvl := range []zerolog.Level{zerolog.DebugLevel, zerolog.InfoLevel, zerolog.WarnLevel, zerolog.ErrorLevel} {
		if strings.EqualFold(text, lvl.String()) {
			return lvl, nil
		}
	}
	return zerolog.NoLevel, fmt.Errorf("%q is not one of debug, info, warn, error", text)
}

// TakeStandardLog makes the lines of Go's standard logger lines of log, at the level debug.
// Nothing here writes to it, but net/http does, raw and for each answer, where a server
// sends more than its answer: such lines would stand between those in JSON.
func TakeStandardLog(log zerolog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(strays{log})
}

// strays logs lines that nothing here has written.
type strays struct{ log zerolog.Logger }

// Write implements io.Writer.
func (s strays) Write(text []byte) (int, error) {
	s.log.Debug().Str("detail", strings.TrimSpace(string(text))).Msg("a library complains")
	return len(text), nil
}

// utcTime adds the time to each line. zerolog's own Timestamp depends on a global
// setting.
type utcTime struct{}

func (utcTime) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}
