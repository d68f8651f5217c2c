package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	maintainer  = "orderpost maintainers <maintainers@orderpost.invalid>"
	summary     = "submits orders in bulk to an HTTP API, each exactly once accounted for"
	description = summary + "\n" +
		"orderpost takes orders from files or NATS JetStream to a key-authenticated HTTP\n" +
		"API. It loses none, doubles none, and says of each what became of it. The units\n" +
		"of this package run one worker with its own broker on one host, and beside it a\n" +
		"door for orders over HTTP and a sender of webhooks, if you start them."
)

// systemdUnits and envFiles are what archives and packages hold of deployments/systemd, beside
// the user.
var (
	systemdUnits = []string{"orderpost-worker.service", "orderpost-worker@.service", "orderpost-gateway.service", "orderpost-notify.service", "orderpost-console.service", "orderpost-watch.service", "orderpost-audit.service", "orderpost-audit.timer"}
	envFiles     = []string{"orderpost.env", "gateway.env", "notify.env", "console.env"}
)

// packages makes the deb and the rpm for one architecture of Linux.
func (b *build) packages(arch, binary, bom string) error {
	for _, format := range []string{"deb", "rpm"} {
		contents, err := b.contents(format, binary, bom)
		if err != nil {
			return err
		}
		info := &nfpm.Info{
			Name: "orderpost", Arch: arch, Platform: "linux", Version: b.packageVersion, VersionSchema: "none",
			Section: "net", Priority: "optional", Maintainer: maintainer, Description: description,
			License: "none granted", Vendor: "orderpost maintainers", MTime: b.when, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Umask: 0o022, Contents: contents,
				Scripts: nfpm.Scripts{PostInstall: b.packaging("postinst"), PreRemove: b.packaging("prerm"), PostRemove: b.packaging("postrm")},
				Deb:     nfpm.Deb{Compression: "gzip"},
				RPM:     nfpm.RPM{BuildHost: "orderpost", Summary: summary, Group: "Applications/Internet", Compression: "zstd"},
			},
		}
		switch format {
		case "deb":
			info.Recommends = []string{"systemd (>= 251)", "ca-certificates"}
			info.Depends = []string{"systemd | systemd-standalone-sysusers | systemd-sysusers"}
		case "rpm":
			info.Release = "1"
			info.Recommends = []string{"systemd >= 251", "ca-certificates"}
		}
		if err := b.pack(format, nfpm.WithDefaults(info)); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

func (b *build) pack(format string, info *nfpm.Info) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := b.create(packager.ConventionalFileName(info))
	if err != nil {
		return err
	}
	if err := packager.Package(info, out); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func (b *build) packaging(name string) string {
	return filepath.Join(b.root, "deployments", "packages", name)
}

func (b *build) systemd(name string) string {
	return filepath.Join(b.root, "deployments", "systemd", name)
}

// contents are the files of a package. What was generated goes into the
// temporary folder first: nfpm reads files.
func (b *build) contents(format, binary, bom string) (files.Contents, error) {
	const doc = "/usr/share/doc/orderpost/"
	var out files.Contents
	add := func(from, to string, mode os.FileMode, kind string) {
		out = append(out, &files.Content{Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: b.when}})
	}
	add(binary, "/usr/bin/orderpost", 0o755, "")
	for _, unit := range systemdUnits {
		add(b.systemd(unit), "/lib/systemd/system/"+unit, 0o644, "")
		if format == "rpm" {
			out[len(out)-1].Destination = "/usr/lib/systemd/system/" + unit
		}
	}
	add(b.systemd("sysusers.conf"), "/usr/lib/sysusers.d/orderpost.conf", 0o644, "")
	for _, name := range envFiles {
		add(b.systemd(name), "/etc/orderpost/"+name, 0o644, "config|noreplace")
	}
	add(b.packaging("copyright"), doc+"copyright", 0o644, "")
	if format == "deb" {
		add(b.packaging("lintian-overrides"), "/usr/share/lintian/overrides/orderpost", 0o644, "")
		name, err := b.temporary("changelog.gz", zip9(fmt.Appendf(nil, "orderpost (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz for what users notice.\n\n -- %s  %s\n",
			b.packageVersion, maintainer, b.when.Format(time.RFC1123Z))))
		if err != nil {
			return nil, err
		}
		add(name, doc+"changelog.gz", 0o644, "")
	}
	for _, f := range append([]file{{path: "orderpost.cdx.json", from: bom}}, b.shared...) {
		body, err := f.bytes()
		if err != nil {
			return nil, err
		}
		place, zipped := packaged(f.path)
		if zipped {
			body = zip9(body)
		}
		name, err := b.temporary(filepath.Base(place), body)
		if err != nil {
			return nil, err
		}
		add(name, place, 0o644, "")
	}
	return out, nil
}

// packaged is where a file of the archives lies in a package, and whether it is
// compressed there.
func packaged(path string) (to string, zipped bool) {
	name := filepath.Base(path)
	switch filepath.Dir(path) {
	case "man":
		return "/usr/share/man/man1/" + name + ".gz", true
	case "completions":
		switch filepath.Ext(name) {
		case ".bash":
			return "/usr/share/bash-completion/completions/orderpost", false
		case ".fish":
			return "/usr/share/fish/vendor_completions.d/orderpost.fish", false
		default:
			return "/usr/share/zsh/vendor-completions/_orderpost", false
		}
	case "docs":
		return "/usr/share/doc/orderpost/docs/" + name + ".gz", true
	default:
		return "/usr/share/doc/orderpost/" + name + ".gz", true
	}
}

func (b *build) temporary(name string, body []byte) (string, error) {
	path := filepath.Join(b.work, name)
	return path, os.WriteFile(path, body, 0o600)
}

// zip9 compresses as `gzip -9n` does.
func zip9(body []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level exists
	_, _ = w.Write(body)                                    // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}
