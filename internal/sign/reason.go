package sign

// Reason is a known mistake in a signature.
type Reason struct {
	Code    ReasonCode `json:"code"`
	Message string     `json:"message"`
}

// ReasonCode names a known reason. The set is closed.
type ReasonCode string

// The known reasons.
const (
	ReasonSortedByBytes    ReasonCode = "sorted_by_bytes"
	ReasonNestedSorted     ReasonCode = "nested_names_sorted"
	ReasonNullDropped      ReasonCode = "null_dropped"
	ReasonEscapedHTML      ReasonCode = "escaped_html"
	ReasonUnstamped        ReasonCode = "unstamped"
	ReasonAnotherTimestamp ReasonCode = "another_timestamp"
	ReasonHexSecret        ReasonCode = "hex_decoded_secret"
	ReasonNewlineSecret    ReasonCode = "newline_after_secret"
	ReasonUpperCase        ReasonCode = "upper_case_hex"
)

var reasonMessages = map[ReasonCode]string{
	ReasonSortedByBytes:    "the names were sorted by their UTF-8 bytes; sort them by UTF-16 code units, as JavaScript does",
	ReasonNestedSorted:     "the names of nested objects were sorted; only the top-level names are",
	ReasonNullDropped:      "null was left out; a field that is null is signed as null",
	ReasonEscapedHTML:      "<, >, & or U+2028/U+2029 were escaped in JSON text; leave them as they are",
	ReasonUnstamped:        "the timestamp was not part of the string to sign",
	ReasonAnotherTimestamp: "the timestamp that the given body carries was signed, which is not the one used here",
	ReasonHexSecret:        "the secret was decoded from hex; use its characters as they are",
	ReasonNewlineSecret:    "the secret had a newline at its end",
	ReasonUpperCase:        "the digits are right, but in upper case; send lower-case hex",
}
