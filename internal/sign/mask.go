package sign

import (
	"fmt"
	"io"
)

// masked stands for a signer wherever one is printed.
const masked = "sign.Signer(masked)"

// String gives a constant: nothing of the secret.
func (Signer) String() string { return masked }

// GoString gives the same constant for %#v.
func (Signer) GoString() string { return masked }

// Format gives the same constant for every verb and flag.
func (Signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText gives the same constant to JSON encoders and loggers.
func (Signer) MarshalText() ([]byte, error) { return []byte(masked), nil }
