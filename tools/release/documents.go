package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"orderpost/docs"
	"orderpost/internal/cli/orderpost"
)

// documents are what goes with the program on every platform: what to read, man
// pages and completions, and the licences of what is linked into it.
func (b *build) documents() ([]file, error) {
	var out []file
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		out = append(out, file{path: name, from: filepath.Join(b.root, name), mode: 0o644})
	}
	out = append(out, b.ownLicence()...)
	for _, name := range append(docs.Names(), "README") {
		out = append(out, file{path: "docs/" + name + ".md", from: filepath.Join(b.root, "docs", name+".md"), mode: 0o644})
	}
	root := orderpost.NewCommand(map[string]string{}, strings.NewReader(""), io.Discard, io.Discard)
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	pages, err := b.manual(root)
	if err != nil {
		return nil, err
	}
	shells, err := completions(root)
	if err != nil {
		return nil, err
	}
	notices, err := b.licences()
	if err != nil {
		return nil, err
	}
	return slices.Concat(out, pages, shells, []file{{path: "NOTICES", body: notices, mode: 0o644}}), nil
}

// licenceName is the file of our own licence, once the owner chose one (make licence).
const licenceName = "LICENSE"

func (b *build) ownLicence() []file {
	from := filepath.Join(b.root, licenceName)
	if _, err := os.Stat(from); err != nil {
		return nil
	}
	return []file{{path: licenceName, from: from, mode: 0o644}}
}

// notices are the files that every archive holds: the licences of others, and ours.
func (b *build) notices() []file {
	return slices.DeleteFunc(slices.Clone(b.shared), func(f file) bool { return f.path != "NOTICES" && f.path != licenceName })
}

// units are the files for systemd.
func (b *build) units() []file {
	var out []file
	for _, name := range slices.Concat(systemdUnits, []string{"sysusers.conf"}, envFiles) {
		out = append(out, file{path: "systemd/" + name, from: b.systemd(name), mode: 0o644})
	}
	return out
}

// manual makes a page for each command.
func (b *build) manual(cmd *cobra.Command) (out []file, err error) {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil, nil
	}
	var page bytes.Buffer
	header := &doc.GenManHeader{Section: "1", Source: "orderpost", Manual: "orderpost", Date: &b.when}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return nil, err
	}
	out = append(out, file{path: "man/" + strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1", body: page.Bytes(), mode: 0o644})
	for _, sub := range cmd.Commands() {
		more, err := b.manual(sub)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func completions(root *cobra.Command) ([]file, error) {
	var bash, zsh, fish bytes.Buffer
	for _, err := range []error{root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true)} {
		if err != nil {
			return nil, err
		}
	}
	return []file{{path: "completions/orderpost.bash", body: bash.Bytes(), mode: 0o644},
		{path: "completions/_orderpost", body: zsh.Bytes(), mode: 0o644},
		{path: "completions/orderpost.fish", body: fish.Bytes(), mode: 0o644}}, nil
}

// licences gathers the licences of all modules that the programs are built of,
// on any platform.
func (b *build) licences() ([]byte, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/orderpost", "./cmd/sandbox")
	cmd.Dir = b.root
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type module struct {
		Path, Version, Dir string
		Main               bool
	}
	dirs := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(listed)); dec.More(); {
		var p struct{ Module *module }
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			dirs[p.Module.Path+" "+p.Module.Version] = p.Module.Dir
		}
	}
	names := make([]string, 0, len(dirs))
	for name := range dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	fmt.Fprintf(&out, "orderpost contains the Go standard library and these modules, under their own licences.\n")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	dirs["Go"] = strings.TrimSpace(string(root))
	for _, name := range append([]string{"Go"}, names...) {
		found, err := licence(dirs[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), name, found)
	}
	return out.Bytes(), nil
}

// licence is the text of all licence files at the top of a module.
func licence(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var text []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "NOTICE") && !strings.HasPrefix(name, "UNLICENSE") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		text = append(text, strings.TrimSpace(string(body)))
	}
	if len(text) == 0 {
		return "", fmt.Errorf("no licence file in %s", dir)
	}
	return strings.Join(text, "\n\n"), nil
}
