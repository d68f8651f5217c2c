package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// people restarts the console with a file of users, who have their names as passwords,
// three times and long enough.
func (s *stage) people(roles ...string) {
	s.Helper()
	var lines []string
	for i := 0; i < len(roles); i += 2 {
		cmd := command(s.T, s.dir, s.env, "orderpost", "console", "user", roles[i], "--role", roles[i+1])
		cmd.Stdin = strings.NewReader(password(roles[i]) + "\n")
		line, err := cmd.Output()
		require.NoError(s, err)
		lines = append(lines, strings.TrimSpace(string(line)))
	}
	s.console.stop()
	s.env = append(s.env, "ORDERPOST_CONSOLE_USERS="+s.file("users", lines...))
	s.startConsole()
}

func password(name string) string { return strings.Repeat(name+"-", 4) }

// named logs a person in by name and password.
func (s *stage) named(name string, scripts bool) *page {
	s.Helper()
	p := s.visitor(scripts)
	s.open(p, "/")
	p.fill("Name", name)
	p.fill("Password", password(name))
	p.click("Log in")
	p.sees("Gate of the fleet")
	return p
}

// TestApprovals: anna uploads a file and cannot approve it; bob sees on the first page that
// it waits for him, and what it holds, and approves it; the journal has both names.
func TestApprovals(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil, "ORDERPOST_APPROVALS=imports.rows=2")
	s.people("anna", "importer+approve", "bob", "operator+approve")
	anna := s.named("anna", true)
	s.upload(anna, s.file("march.ndjson", `{"order_no":"M-1","timeout":30,"amount":120.10,"sku":"0012"}`, `{"order_no":"M-2","timeout":30,"amount":7.20,"sku":"0013"}`,
		`{"order_no":"M-3","timeout":30,"amount":4999,"sku":"0014"}`))
	anna.click("Change the columns and check again")
	anna.click("How the file is read")
	anna.fill("Name of the import", "march")
	anna.press("Check the file")
	s.follow(anna, "The first orders as they would be sent")
	anna.press("Import 3 orders")
	s.follow(anna, "Follow its orders")
	anna.click("Follow its orders")
	s.follow(anna, "3 orders wait for an approval.")
	anna.click("Who approves it, and what it holds")
	anna.sees("You uploaded it yourself; another login must approve it.")
	require.NotContains(t, anna.text(), "Approve…")
	anna.accessible("what somebody uploaded herself")

	bob := s.named("bob", true)
	bob.sees("a login other than anna")
	bob.accessible("an overview with what waits")
	for _, scripts := range []bool{true, false} {
		p := bob
		if !scripts {
			p = s.named("bob", false)
		}
		for _, l := range approvalLooks {
			s.open(p, l.path)
			p.sees(l.sees)
			p.accessible(l.path)
		}
	}
	s.open(bob, "/")
	bob.click("march")
	bob.sees("Who stands for it")
	for _, text := range []string{"amount\t5126.3\t3\t0", "it has 3 rows, more than 2", "anna"} {
		require.Contains(t, strings.ToLower(bob.text()), text)
	}
	bob.click("Approve…")
	bob.sees("You stand for these orders with your name.")
	anna.expects("409")
	require.Equal(t, http.StatusConflict, anna.posts("/approval/approve", "batch", "march", "seen", bob.seen()), "her own import, though she may approve others")
	bob.fill("Note (optional)", "as ordered")
	bob.press("Approve the import")
	bob.sees("You approved it. Its orders take their turns.")
	s.open(anna, "/import?batch=march")
	s.follow(anna, "accepted\t3")
	s.open(anna, "/journal")
	anna.sees("as ordered")
	require.Contains(t, anna.text(), "approve: march.ndjson: as ordered")
	require.Contains(t, s.orderpost(0, "audit"), "The books balance.")
}
