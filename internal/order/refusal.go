package order

import "strings"

// Code names the rule that a body breaks. The set is closed. Its words are the same
// in errors, records, rejects files and documents.
type Code string

// The codes of refused bodies.
const (
	// CodeInvalidJSON: the body is not exactly one RFC 8259 value (signing rule 1).
	CodeInvalidJSON Code = "invalid_json"
	// CodeInvalidUTF8: the body is not valid UTF-8 (rule 1).
	CodeInvalidUTF8 Code = "invalid_utf8"
	// CodeTooLarge: the body is longer than [MaxBody] (rule 1), or would be sent so.
	CodeTooLarge Code = "too_large"
	// CodeNotObject: the body is valid JSON but not an object (rule 2).
	CodeNotObject Code = "not_object"
	// CodeTooDeep: the body nests deeper than [MaxDepth] (rule 2).
	CodeTooDeep Code = "too_deep"
	// CodeDuplicateName: a name occurs twice in one object (rule 3).
	CodeDuplicateName Code = "duplicate_name"
	// CodeProtoKey: an object has the name __proto__ (rule 3).
	CodeProtoKey Code = "proto_key"
	// CodeLoneSurrogate: an escaped surrogate lacks its other half (rule 4).
	CodeLoneSurrogate Code = "lone_surrogate"
	// CodeNumberNotExact: JavaScript would print the number as another value (rule 5).
	CodeNumberNotExact Code = "number_not_exact"
	// CodeNumberOutOfRange: JavaScript would read the number as infinite (rule 5).
	CodeNumberOutOfRange Code = "number_out_of_range"
	// CodeMissingField: a required field is absent or null.
	CodeMissingField Code = "missing_field"
	// CodeBadOrderNo: order_no is not a string of 1 to [MaxOrderNo] bytes.
	CodeBadOrderNo Code = "bad_order_no"
	// CodeWrongType: a required field has a type that the contract excludes
	// (contract section 2.3: timeout is an integer).
	CodeWrongType Code = "wrong_type"
)

// refusals maps each code to a sentence, in which % stands for the value seen, and
// to advice for the sender.
var refusals = map[Code]struct{ sentence, advice string }{
	CodeInvalidJSON:      {"not valid JSON: %", "send one JSON object as RFC 8259 defines it"},
	CodeInvalidUTF8:      {"% is not valid UTF-8", "encode the body as UTF-8, without a byte order mark"},
	CodeTooLarge:         {"a body of % is too large", "send at most 1048576 bytes"},
	CodeNotObject:        {"the body is % instead of an object", "send one JSON object"},
	CodeTooDeep:          {"% is nested too deeply", "nest at most 64 levels, the body being the first"},
	CodeDuplicateName:    {"the name % occurs twice in one object", "send each name once"},
	CodeProtoKey:         {"the name % has a special meaning in JavaScript", "choose another name"},
	CodeLoneSurrogate:    {"% is one half of a surrogate pair", "send the whole character or leave it out"},
	CodeNumberNotExact:   {"% cannot be carried exactly as a number", "send it as a string"},
	CodeNumberOutOfRange: {"% is too large for a number", "send it as a string"},
	CodeMissingField:     {"% but required", "add the field"},
	CodeBadOrderNo:       {"% cannot be an order number", "send a string of 1 to 255 bytes"},
	CodeWrongType:        {"% is not an integer", "send an integer number without quotes"},
}

// Advice returns what the sender of such a body can do.
func (c Code) Advice() string { return refusals[c].advice }

// Error says why a body can never be sent. Every function of this package that
// parses a body returns only this type of error.
type Error struct {
	// Code is the broken rule.
	Code Code
	// Path is the path of the value, such as items[0].price; "" = the body itself.
	Path string
	// Seen is the value found there, shortened to a few dozen bytes.
	Seen string
	// Advice is what the sender can do.
	Advice string
}

// Error returns path, problem and advice in one line:
// "amount: 9007199254740993 cannot be carried exactly as a number; send it as a string".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(strings.Replace(refusals[e.Code].sentence, "%", e.Seen, 1))
	if e.Advice != "" {
		b.WriteString("; ")
		b.WriteString(e.Advice)
	}
	return b.String()
}

// refuse returns an Error with the code's own advice.
func refuse(code Code, path, seen string) *Error {
	return &Error{Code: code, Path: path, Seen: seen, Advice: code.Advice()}
}
