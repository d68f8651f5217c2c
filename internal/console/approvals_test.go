package console

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/settle"
	room "orderpost/internal/worker/feed"
)

// approvers writes a file of users: anna and bob may approve, carol may not.
func approvers(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	writeApprovers(t, path, names...)
	return path
}

// writeApprovers writes the file, or takes who is not named out of it.
func writeApprovers(t *testing.T, path string, names ...string) {
	t.Helper()
	rights := map[string]string{"anna": "importer+approve", "bob": "operator+approve", "carol": "importer", "dora": "importer+approve", "emil": "operator+resubmit-unknown+approve"}
	was, _ := os.ReadFile(path) // there is none at first
	lines := strings.Split(string(was), "\n")
	var text strings.Builder
	for _, name := range names {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+":") })
		if at < 0 {
			hash, err := bcrypt.GenerateFromPassword([]byte(strings.Repeat(name, 3)), bcrypt.MinCost)
			require.NoError(t, err)
			at, lines = len(lines), append(lines, fmt.Sprintf("%s:%s:%s", name, rights[name], hash))
		}
		text.WriteString(lines[at] + "\n")
	}
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
}

// approving sets the rule and lets a worker feed.
func (r *rig) approving(rule string) {
	r.Helper()
	approval.SetRule(r.T.Context(), r.worker, rule, "w0", "test", zerolog.Nop())
	f := room.New(room.Options{Queue: r.worker, Fleet: fleet.New(r.worker), Name: "w1", Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.T.Context()))
	carrier := approval.Carrier{Queue: r.worker, Journal: journal.New(r.worker, "orderpost worker", "test"), Log: zerolog.Nop(), Now: time.Now, Leads: f.Leads}
	var sides sync.WaitGroup
	sides.Go(func() { f.Run(ctx) })
	sides.Go(func() { carrier.Run(ctx) })
	r.Cleanup(func() { cancel(); sides.Wait() })
}

// waitsFor waits until an import waits for its approval, and returns the page about it.
func (b *browser) waitsFor(batch string) (page string) {
	b.Helper()
	require.Eventually(b, func() bool {
		page = b.do(http.MethodGet, approval.Address(batch), nil).page
		return strings.Contains(page, "needs approval")
	}, time.Minute, 20*time.Millisecond)
	return page
}

func (r *rig) left(batch string) int {
	r.Helper()
	n, err := r.worker.Waiting.Of(r.T.Context(), imports.ImportToken(batch))
	require.NoError(r, err)
	return int(n)
}

// importsFile uploads a file of three orders and imports it.
func (b *browser) importsFile(name string) (batch string) {
	b.Helper()
	text := "order_no,timeout,amount\n" + name + "-A,30,0.10\n" + name + "-B,30,0.20\n" + name + "-C,30,12.70\n"
	a := b.upload(http.StatusOK, name+".csv", strings.NewReader(text))
	at := a.Request.URL.Path
	b.send(http.StatusOK, at+"/check", columnsForm(b.T, a.page, "batch", name)...)
	b.settled(at)
	b.send(http.StatusOK, at+"/import")
	b.settled(at)
	return name
}

// TestFourEyes: an upload waits for a second login, who sees what it holds; each refusal has
// its words; the journal has both names.
func TestFourEyes(t *testing.T) {
	users := approvers(t, "anna", "bob", "carol", "dora")
	r := newRig(t, func(c *Config) { c.Users = users })
	r.approving("imports.sum.amount=10.00")
	anna, bob, carol := r.as("anna"), r.as("bob"), r.as("carol")
	batch := anna.importsFile("march")
	page := anna.waitsFor(batch)
	at := regexp.MustCompile(`href="(/upload/[^"/]+)"`).FindStringSubmatch(anna.open(http.StatusOK, "/upload"))
	require.Len(t, at, 2)
	require.Contains(t, text(anna.open(http.StatusOK, at[1])), "Its orders wait until another person approves or refuses them.")
	require.Contains(t, text(page), "Its amount adds up to 13, more than 10. It waits for a login other than anna.")
	require.Contains(t, text(page), "You cannot approve it. You uploaded it yourself; another login must approve it.")
	require.NotContains(t, page, "/approval/approve?")
	for _, says := range []string{"Orders that wait 3", "File march.csv", "SHA-256 of the file", "SHA-256 of what waits", "Imported by anna", "anna uploaded the file"} {
		require.Contains(t, text(page), says)
	}
	require.Contains(t, text(page), "amount 13 3 0", "the sum by column")
	require.Regexp(t, `Largest by amount.*march-C 12\.7.*march-B 0\.2.*march-A 0\.1`, text(page))

	var overview string
	require.Eventually(t, func() bool { // pages read the streams once a second
		overview = text(bob.open(http.StatusOK, "/"))
		return strings.Contains(overview, "Imports that wait for an approval")
	}, time.Minute, 20*time.Millisecond)
	require.Contains(t, overview, "you a login other than anna")
	require.NotContains(t, text(anna.open(http.StatusOK, "/")), "you a login other than anna")
	require.Contains(t, text(carol.open(http.StatusOK, "/import?batch="+batch)), "3 orders wait for an approval.")
	require.Eventually(t, func() bool { return strings.Contains(text(carol.open(http.StatusOK, "/waiting")), "Its approval") }, time.Minute, 20*time.Millisecond)
	require.Contains(t, text(carol.open(http.StatusOK, "/approvals")), "Here imports whose column amount adds up to more than 10 need an approval.")

	ask := bob.open(http.StatusOK, "/approval/approve?batch="+batch)
	require.Contains(t, text(ask), "Sum of amount 13")
	seen := seenField.FindStringSubmatch(ask)[1]
	a := anna.do(http.MethodPost, "/approval/approve", map[string][]string{"batch": {batch}, "seen": {seen}})
	require.Equal(t, http.StatusConflict, a.StatusCode)
	require.Contains(t, text(a.page), "You uploaded it yourself; another login must approve it. Nothing was done.")
	a = carol.do(http.MethodPost, "/approval/approve", map[string][]string{"batch": {batch}, "seen": {seen}})
	require.Equal(t, http.StatusForbidden, a.StatusCode)
	require.Contains(t, text(a.page), "needs the right approve, and you do not have it. Nothing was done.")
	require.Equal(t, 3, r.left(batch))

	dora := r.as("dora")
	writeApprovers(t, users, "anna", "bob", "carol")
	require.NoError(t, os.Chtimes(users, time.Now(), time.Now().Add(time.Second)))
	a = dora.do(http.MethodPost, "/approval/approve", map[string][]string{"batch": {batch}, "seen": {seen}})
	require.Equal(t, http.StatusUnauthorized, a.StatusCode)
	require.Contains(t, text(a.page), "Your login has ended, so nothing was done.")

	require.Contains(t, text(bob.send(http.StatusOK, "/approval/approve", "batch", batch, "note", "as ordered")), "You approved it. Its orders take their turns.")
	require.Eventually(t, func() bool { return r.left(batch) == 0 }, time.Minute, 5*time.Millisecond)
	a = bob.do(http.MethodPost, "/approval/approve", map[string][]string{"batch": {batch}, "seen": {seen}})
	require.Equal(t, http.StatusConflict, a.StatusCode)
	require.Contains(t, text(a.page), "bob approved this import at ")

	who := make(map[journal.Kind]string)
	_, err := journal.All(t.Context(), r.worker, journal.Query{Batch: batch}, func(i journal.Item) bool {
		who[i.Kind] = i.Actor.Name + " " + string(i.Actor.Known) + " " + i.Note
		return true
	})
	require.NoError(t, err)
	require.Equal(t, map[journal.Kind]string{journal.Import: "anna login ", journal.Approve: "bob login as ordered"}, who)
	require.Contains(t, text(carol.open(http.StatusOK, "/journal?kind=approve")), "bob")
	require.Contains(t, text(carol.audited()), "The books balance")
}

// audited audits until less moves than an audit can judge.
func (b *browser) audited() (page string) {
	b.Helper()
	b.send(http.StatusOK, "/books")
	require.Eventually(b, func() bool {
		page = b.open(http.StatusOK, "/books")
		switch {
		case strings.Contains(page, "An audit is running"):
			return false
		case strings.Contains(page, "not known yet"): // the orders are still on their way
			b.send(http.StatusOK, "/books")
			return false
		}
		return true
	}, time.Minute, 20*time.Millisecond)
	return page
}

// TestRefusingAnImport: a refusal needs a reason, and withdraws what waits.
func TestRefusingAnImport(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = approvers(t, "anna", "bob", "dora") })
	r.approving("imports")
	anna, bob := r.as("anna"), r.as("bob")
	batch := anna.importsFile("march")
	bob.waitsFor(batch)
	ask := bob.open(http.StatusOK, "/approval/refuse?batch="+batch)
	require.Contains(t, text(bob.send(http.StatusUnprocessableEntity, "/approval/refuse", "batch", batch)), "Fill in the field &#34;Reason&#34; first.")
	bob.send(http.StatusOK, "/approval/refuse", "batch", batch, "note", "the prices are of last year")
	require.Eventually(t, func() bool { return r.left(batch) == 0 }, time.Minute, 5*time.Millisecond)
	require.Contains(t, text(anna.open(http.StatusOK, approval.Address(batch))), "bob refused it at ")
	a := r.as("dora").do(http.MethodPost, "/approval/approve", map[string][]string{"batch": {batch}, "seen": {seenField.FindStringSubmatch(ask)[1]}})
	require.Equal(t, http.StatusConflict, a.StatusCode)
	require.Contains(t, text(a.page), "bob refused this import at ")
	require.Contains(t, text(a.page), "The prices are of last year.")
	counts, err := r.worker.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts.Pending, "nothing of it went out")
	require.Contains(t, text(bob.open(http.StatusOK, "/journal?kind=refuse")), "the prices are of last year")
}

// TestApprovalsOfCommandsAndLinks: a program stored the import, so two logins must approve,
// and whoever came by the terminal's link is none.
func TestApprovalsOfCommandsAndLinks(t *testing.T) {
	r := newRig(t)
	r.approving("imports")
	in := settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "march:1", Lane: "bulk", Batch: "march"}
	require.NoError(t, r.worker.PublishMany(t.Context(), []settle.Intent{in})[0].Err)
	link := r.loggedIn()
	page := link.waitsFor("march")
	require.Contains(t, text(page), "It waits for two logins.")
	require.Contains(t, text(page), "needs the right approve")
	r.Server = r.console(func(c *Config) { c.Users = approvers(t, "anna", "bob") })
	anna, bob := r.as("anna"), r.as("bob")
	require.Contains(t, text(anna.send(http.StatusOK, "/approval/approve", "batch", "march")), "You approved it. Another login must approve it, too.")
	require.Contains(t, text(anna.open(http.StatusOK, approval.Address("march"))), "You approved it already; another login must approve it, too.")
	require.Eventually(t, func() bool {
		return strings.Contains(text(bob.open(http.StatusOK, "/")), "you a login other than anna")
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, 1, r.left("march"))
	bob.send(http.StatusOK, "/approval/approve", "batch", "march")
	require.Eventually(t, func() bool { return r.left("march") == 0 }, time.Minute, 5*time.Millisecond)
	anna.open(http.StatusNotFound, approval.Address("nothing"))
}

// TestTwoConsolesShowTheSame: bob's console has read an import that a program still stores.
// anna approves what there is since, at another console. bob is shown that, and not what his
// console has read: his approval would stand for another part of the import, and undo hers.
func TestTwoConsolesShowTheSame(t *testing.T) {
	users := func(c *Config) { c.Users = approvers(t, "anna", "bob") }
	r := newRig(t, users)
	r.approving("imports")
	store := func(no string) {
		in := settle.Intent{OrderNo: no, Body: []byte(`{"order_no":"` + no + `","timeout":30}`), ID: "march:" + no, Lane: "bulk", Batch: "march"}
		require.NoError(t, r.worker.PublishMany(t.Context(), []settle.Intent{in})[0].Err)
	}
	store("A-1")
	store("A-2")
	bob := r.as("bob")
	require.Contains(t, text(bob.waitsFor("march")), "Orders that wait 2")
	store("A-3")
	r.Server = r.console(users)
	anna := r.as("anna")
	require.Contains(t, text(anna.waitsFor("march")), "Orders that wait 3")
	require.Contains(t, text(anna.send(http.StatusOK, "/approval/approve", "batch", "march")), "You approved it. Another login must approve it, too.")
	store("A-4")
	require.Contains(t, text(bob.open(http.StatusOK, approval.Address("march"))), "Orders that wait 3")
	require.Contains(t, text(bob.send(http.StatusOK, "/approval/approve", "batch", "march")), "You approved it. Its orders take their turns.")
	require.Eventually(t, func() bool { return r.left("march") == 1 }, time.Minute, 5*time.Millisecond)
}

func TestRightsToApprove(t *testing.T) {
	for _, text := range []string{"importer+approve", "operator+approve", "operator+resubmit-unknown+approve"} {
		r, err := readRole(text)
		require.NoError(t, err)
		require.True(t, r.Approve)
		require.Equal(t, text, r.String())
	}
	for _, text := range []string{"viewer+approve", "approve", "operator+approve+resubmit-unknown", "importer+resubmit-unknown+approve"} {
		_, err := readRole(text)
		require.ErrorContains(t, err, "is not a role", text)
	}
}
