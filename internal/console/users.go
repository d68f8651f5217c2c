package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"orderpost/internal/textfile"
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
	return users, errors.Join(errs...)
}

// userFile is a file of users that is read again when it changes.
type userFile struct {
	path string

	mu    sync.Mutex
	seen  time.Time
	size  int64
	users map[string]user
}

// load reads the file if it changed. After an error the users stay who they were,
// so a file that is being edited locks nobody out.
func (f *userFile) load() error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("ORDERPOST_CONSOLE_USERS: %w", err)
	}
	if err := writable(f.path, info); err != nil {
		return fmt.Errorf("ORDERPOST_CONSOLE_USERS: %w", err)
	}
	if f.users != nil && info.ModTime().Equal(f.seen) && info.Size() == f.size {
		return nil
	}
	text, err := textfile.Read(f.path)
	if err != nil {
		return fmt.Errorf("ORDERPOST_CONSOLE_USERS: %w", err)
	}
	users, err := readUsers(text)
	if err == nil && len(users) == 0 {
		err = errors.New("it names nobody")
	}
	if err != nil {
		return fmt.Errorf("ORDERPOST_CONSOLE_USERS: %s: %w", f.path, err)
	}
	f.users, f.seen, f.size = users, info.ModTime(), info.Size()
	return nil
}

// writable returns an error if anybody on the machine can change the file, or put another
// one in its place: they could let themselves in as an operator.
func writable(path string, info os.FileInfo) error {
	if runtime.GOOS == "windows" { // the mode says nothing there
		return nil
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 {
		return fmt.Errorf("anybody on this machine may write %s (mode %04o) and let themselves in; run chmod o-w %s", path, mode.Perm(), path)
	}
	folder := filepath.Dir(path)
	if in, err := os.Stat(folder); err == nil && in.Mode().Perm()&0o002 != 0 && in.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("anybody on this machine may replace %s, because its folder is open to all (mode %04o); run chmod o-w %s", path, in.Mode().Perm(), folder)
	}
	return nil
}

// shared reports whether the file's group may write it.
func (f *userFile) shared() bool {
	info, err := os.Stat(f.path)
	return f.path != "" && err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o020 != 0
}

func (f *userFile) find(name string) (user, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, found := f.users[name]
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
