package sign

import (
	"fmt"
	"io"
)

// masked is the printed form of every signer.
const masked = "sign.Signer(masked)"

// String returns a constant without the secret.
func (Signer) String() string { return masked }

// GoString implements fmt.GoStringer with the same constant.
func (Signer) GoString() string { return masked }

// Format implements fmt.Formatter with the same constant for every verb and flag.
func (Signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText implements encoding.TextMarshaler with the same constant.
func (Signer) MarshalText() ([]byte, error) { return []byte(masked), nil }
