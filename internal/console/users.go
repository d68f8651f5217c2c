package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"orderpost/internal/platform/livefile"
)

// bcryptCost makes one check of a password take about 200 ms.
const bcryptCost = 12

// maxPassword is bcrypt's own limit, in bytes.
const maxPassword = 72

// byProxy stands in the file in place of a hash, for a person whom the proxy
// names and who has no password.
const byProxy = "proxy"

type user struct {
	rights Rights
	hash   string
}

// UserLine returns a line of the file of users.
func UserLine(name, role, password string) (string, error) {
	rights, err := readRole(role)
	switch {
	case err != nil:
		return "", err
	case name == "" || len(name) > 100 || strings.ContainsAny(name, ":\r\n\x00") || strings.TrimSpace(name) != name || name[0] == '#':
		return "", fmt.Errorf("%q cannot be a name: it has 1 to 100 bytes without a colon, does not begin with #, and neither begins nor ends with a space", name)
	case len(password) < 12:
		return "", errors.New("the password has fewer than 12 bytes")
	case len(password) > maxPassword:
		return "", fmt.Errorf("the password has more than %d bytes, of which bcrypt would ignore the rest", maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcryptCost)
	if err != nil {
		return "", err
	}
	return name + ":" + rights.String() + ":" + string(hash), nil
}

// readUsers reads the lines of a file of users. Its error names every mistake by
// its line and never shows a hash.
func readUsers(text []byte) (map[string]user, error) {
	users := make(map[string]user)
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, ":")
		if len(fields) != 3 || fields[0] == "" {
			errs = append(errs, fmt.Errorf("line %d is not name:role:hash", n))
			continue
		}
		rights, err := readRole(fields[1])
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
		if _, err := bcrypt.Cost([]byte(fields[2])); err != nil && fields[2] != byProxy {
			errs = append(errs, fmt.Errorf("line %d: the third field is neither a bcrypt hash nor the word %s", n, byProxy))
		}
		if _, twice := users[fields[0]]; twice {
			errs = append(errs, fmt.Errorf("line %d: %q is there already", n, fields[0]))
		}
		users[fields[0]] = user{rights, fields[2]}
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, err)
	}
	if len(users) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("it names nobody"))
	}
	return users, errors.Join(errs...)
}

// userFile is a file of users that is read again when it changes; nil = there is none.
type userFile struct {
	path string
	*livefile.Live[map[string]user]
}

// openUsers reads a file of users. A file that is wrong later locks nobody out.
func openUsers(path string, log zerolog.Logger) (*userFile, error) {
	if path == "" {
		return nil, nil
	}
	live, err := livefile.OpenLive(livefile.Options{Setting: "ORDERPOST_CONSOLE_USERS", Path: path, Guard: true, Log: log}, readUsers)
	return &userFile{path, live}, err
}

// shared reports whether the file's group may write it.
func (f *userFile) shared() bool {
	if f == nil {
		return false
	}
	info, err := os.Stat(f.path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o020 != 0
}

func (f *userFile) find(name string) (u user, found bool) {
	if f != nil {
		u, found = f.Get()[name]
	}
	return u, found
}

// noHash is compared with the password of a name that is not in the file, so that
// the time of a refusal does not tell which names exist.
var noHash = sync.OnceValue(func() []byte {
	hash, _ := bcrypt.GenerateFromPassword([]byte("nobody's password"), bcryptCost) // fails only for a wrong cost
	return hash
})

// check reports whether the password is the person's.
func (f *userFile) check(name, password string) (user, bool) {
	u, found := f.find(name)
	hash := []byte(u.hash)
	if !found || u.hash == byProxy {
		found, hash = false, noHash()
	}
	right := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
	return u, found && right
}

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
