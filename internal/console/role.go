package console

import (
	"fmt"
	"strings"
)

// Role says what a person may do. A role includes those below it.
type Role uint8

// The roles.
const (
	// Anybody needs no login.
	Anybody Role = iota
	// Viewer sees everything but the bodies of orders, and changes nothing.
	Viewer
	// Importer also uploads files and sees bodies, and cancels imports.
	Importer
	// Operator also controls the fleet and settles dead letters.
	Operator
)

var roleNames = [...]string{"", "viewer", "importer", "operator"}

// String returns the role's word in the file of users.
func (r Role) String() string { return roleNames[r] }

// unknownRight is the separate right to send orders again that may exist already.
const unknownRight = "+resubmit-unknown"

// Rights are a role, and whether the person may send orders again that may exist
// already (outcome unknown).
type Rights struct {
	Role            Role
	ResubmitUnknown bool
}

// String returns the rights as the file of users spells them.
func (r Rights) String() string {
	if r.ResubmitUnknown {
		return r.Role.String() + unknownRight
	}
	return r.Role.String()
}

// readRole reads viewer, importer, operator or operator+resubmit-unknown.
func readRole(text string) (Rights, error) {
	name, unknown := strings.CutSuffix(text, unknownRight)
	for r := Viewer; r <= Operator; r++ {
		if r.String() == name && (!unknown || r == Operator) {
			return Rights{r, unknown}, nil
		}
	}
	return Rights{}, fmt.Errorf("%q is not a role: viewer, importer, operator, operator%s", text, unknownRight)
}

// Person is somebody who is logged in.
type Person struct {
	Name string
	Rights
	// How says how the name is known: "link", "login" or "proxy".
	How string
}
