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

// approveRight is the separate right to approve and refuse imports.
const approveRight = "+approve"

// Rights are a role, whether the person may send orders again that may exist already
// (outcome unknown), and whether they may approve and refuse imports.
type Rights struct {
	Role            Role
	ResubmitUnknown bool
	Approve         bool
}

// String returns the rights as the file of users spells them.
func (r Rights) String() string {
	text := r.Role.String()
	if r.ResubmitUnknown {
		text += unknownRight
	}
	if r.Approve {
		text += approveRight
	}
	return text
}

// readRole reads viewer, importer, operator or operator+resubmit-unknown. The last three may
// end with +approve: whoever approves must see bodies.
func readRole(text string) (Rights, error) {
	name, approve := strings.CutSuffix(text, approveRight)
	name, unknown := strings.CutSuffix(name, unknownRight)
	for r := Viewer; r <= Operator; r++ {
		if r.String() == name && (!unknown || r == Operator) && (!approve || r >= Importer) {
			return Rights{r, unknown, approve}, nil
		}
	}
	return Rights{}, fmt.Errorf("%q is not a role: viewer, importer, operator, operator%s, the last three also with %s at the end", text, unknownRight, approveRight)
}

// Person is somebody who is logged in.
type Person struct {
	Name string
	Rights
	// How says how the name is known: "link", "login" or "proxy".
	How string
	// hash is that of the password of a login.
	hash string
}
