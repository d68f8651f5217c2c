package answer

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxSaid is the most characters that Said returns.
const maxSaid = 60

// Said returns what the answer itself says about the outcome: its code and its message,
// such as "40012: balance # is too low". It tells answers with the same status apart.
//
// The result is at most 60 characters long. Words with a digit, quoted texts, mail
// addresses and the order_no become "#", so that the same refusal of two orders says the
// same. It is empty if the answer says neither.
func (a *Answer) Said(orderNo string) string {
	if a.Status == 0 || len(a.Body) == 0 {
		return ""
	}
	a.parse()
	var s said
	switch {
	case a.isJSON:
		s.read(a.json, 0)
	case !a.unreadable(): // what begins like JSON and is cut short says nothing
		s.message = firstLine(a.Body)
	}
	code, message := foldCode(a.shortened(s.code), orderNo), fold(a.shortened(s.message), orderNo)
	text := message
	switch {
	case code != "" && (message == "" || message == code):
		text = code
	case code != "":
		text = code + ": " + message
	}
	if runes := []rune(text); len(runes) > maxSaid {
		text = strings.TrimRight(string(runes[:maxSaid-1]), " ") + "…"
	}
	return text
}

// shortened returns a text of the answer in one line, without keys and control
// characters.
func (a *Answer) shortened(text string) string {
	text = strings.Join(strings.Fields(a.Excerpt([]byte(text), 500)), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// said collects the code and the message of a body.
type said struct{ code, message string }

// maxSaidDepth is how deep codes and messages may stand: {"errors":[{"error":{"code":…}}]}.
const maxSaidDepth = 4

// The names of members that say it, as normal writes them, best first.
var (
	saidCodes = []string{"code", "errorcode", "errcode", "errno", "retcode", "returncode", "resultcode", "respcode", "responsecode", "failcode",
		"rejectcode", "ret", "rc", "statuscode", "type", "error", "status", "state", "result"}
	saidMessages = []string{"message", "msg", "errormessage", "errormsg", "errmsg", "retmsg", "errordescription", "description", "detail", "details",
		"reason", "rejectreason", "failreason", "error", "title", "info", "text"}
	saidInside = []string{"error", "err", "errors", "fault", "exception", "result", "status", "meta", "head", "header", "response", "details", "data"}
)

// read fills in what is missing from a value and from what it holds.
func (s *said) read(v any, depth int) {
	if depth > maxSaidDepth {
		return
	}
	switch v := v.(type) {
	case string:
		if s.message == "" {
			s.message = v
		}
	case []any:
		if len(v) > 0 {
			s.read(v[0], depth+1)
		}
	case map[string]any:
		s.object(v, depth)
	}
}

func (s *said) object(v map[string]any, depth int) {
	members := make(map[string]any, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		var buf [24]byte
		if short := string(normal(buf[:], []byte(name))); members[short] == nil {
			members[short] = v[name]
		}
	}
	if s.code == "" {
		for _, name := range saidCodes {
			if s.code = codeText(members[name]); s.code != "" {
				break
			}
		}
	}
	if s.message == "" {
		for _, name := range saidMessages {
			if text, ok := members[name].(string); ok && text != "" && text != s.code {
				s.message = text
				break
			}
		}
	}
	for _, name := range saidInside {
		if s.code != "" && s.message != "" {
			return
		}
		switch inside := members[name].(type) {
		case map[string]any:
			s.read(inside, depth+1)
			if name == "errors" && s.message == "" && len(inside) > 0 { // {"errors":{"amount":["is too low"]}}
				field := slices.Min(slices.Collect(maps.Keys(inside)))
				if s.read(inside[field], depth+1); s.message != "" {
					s.message = field + ": " + s.message
				}
			}
		case []any:
			s.read(inside, depth+1)
		}
	}
}

// codeText returns a code as text; "" = it is none. A text with a space is a message.
func codeText(v any) string {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case string:
		if !strings.ContainsFunc(v, unicode.IsSpace) {
			return v
		}
	}
	return ""
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// firstLine returns the title of a page, or the first line of a text.
func firstLine(body []byte) string {
	body = body[:min(len(body), 4096)]
	if m := pageTitle.FindSubmatch(body); m != nil {
		return string(m[1])
	}
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

var (
	// particular matches what differs from order to order: a quoted text, a mail
	// address, a word with a digit.
	particular = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|“[^”]*”|\\S+@\\S+|" + `[^\s"'(),;:{}\[\]<>=]*\d[^\s"'(),;{}\[\]<>]*`)
	longNumber = regexp.MustCompile(`\d{8,}|[0-9a-fA-F]{20,}|[0-9a-fA-F]{8}-[0-9a-fA-F-]{20,}`)
)

// fold replaces what differs from order to order.
func fold(text, orderNo string) string {
	if orderNo != "" {
		text = strings.ReplaceAll(text, orderNo, "#1")
	}
	return particular.ReplaceAllString(text, "#")
}

// foldCode is fold for a code, whose digits matter.
func foldCode(text, orderNo string) string {
	if orderNo != "" {
		text = strings.ReplaceAll(text, orderNo, "#")
	}
	return longNumber.ReplaceAllString(text, "#")
}
