package importer

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/transform"
)

// utf16Decoder decodes UTF-16. It converts a lone surrogate to invalid UTF-8, which
// the check of the cell reports. Libraries silently replace it.
type utf16Decoder struct {
	transform.NopResetter
	order binary.ByteOrder
}

// Transform implements transform.Transformer.
func (w utf16Decoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		if len(dst)-nDst < utf8.UTFMax {
			return nDst, nSrc, transform.ErrShortDst
		}
		if len(src)-nSrc < 2 {
			if !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			dst[nDst] = 0xff // half a code unit: the file is truncated
			return nDst + 1, nSrc + 1, nil
		}
		r, size := rune(w.order.Uint16(src[nSrc:])), 2
		if utf16.IsSurrogate(r) {
			if len(src)-nSrc < 4 && !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			whole := utf8.RuneError
			if len(src)-nSrc >= 4 {
				whole = utf16.DecodeRune(r, rune(w.order.Uint16(src[nSrc+2:])))
			}
			if whole == utf8.RuneError { // the bytes that UTF-8 would use if it allowed surrogates
				nDst += copy(dst[nDst:], []byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f})
				nSrc += 2
				continue
			}
			r, size = whole, 4
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		nSrc += size
	}
	return nDst, nSrc, nil
}
