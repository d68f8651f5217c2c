// Command release builds what a release consists of into a folder: archives,
// packages, an SBOM for each, their provenance and their checksums. The same commit and version
// give the same bytes: times come from SOURCE_DATE_EPOCH or the commit.
//
//	go run . [--version v1.2.3] [--commit HASH] [--out ../../dist] [--platforms linux/amd64,…]
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms are those that we build for; packages are for those with "linux".
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	var b build
	var list string
	flag.StringVar(&b.version, "version", "", "what --version says; default: git describe")
	flag.StringVar(&b.commit, "commit", "", "what is built, for the provenance; default: git's HEAD")
	flag.StringVar(&b.out, "out", "../../dist", "folder for what is built; what is in it is removed")
	flag.StringVar(&b.root, "root", "../..", "the repository")
	flag.StringVar(&list, "platforms", platforms, "os/arch, separated by commas")
	flag.Parse()
	if err := b.run(strings.Split(list, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build is one release.
type build struct {
	root, out, version string
	commit             string
	packageVersion     string
	when               time.Time
	work               string // a temporary folder
	shared             []file // what every archive and package holds
	made               []string
}

func (b *build) run(platforms []string) (err error) {
	if err := b.describe(); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "orderpost-release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.work) }()
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil { //nolint:gosec // it is for others
		return err
	}
	if b.shared, err = b.documents(); err != nil {
		return err
	}
	for _, p := range platforms {
		goos, arch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("--platforms: %q is not os/arch", p)
		}
		if err := b.platform(goos, arch); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	slices.Sort(b.made)
	if err := b.provenance(platforms); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	return b.checksums()
}

// describe fills in the version, the commit and the time.
func (b *build) describe() (err error) {
	if b.version == "" {
		if b.version, err = b.git("describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if b.commit == "" {
		if b.commit, err = b.git("rev-parse", "HEAD"); err != nil {
			return err
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = b.git("log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch)
	}
	b.when = time.Unix(seconds, 0).UTC()
	b.packageVersion = packageVersion(b.version, b.when)
	return nil
}

func (b *build) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = b.root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w (without git: --version, --commit and SOURCE_DATE_EPOCH)", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// platform builds the programs for one platform, and what is made of them.
func (b *build) platform(goos, arch string) error {
	for _, program := range []string{"orderpost", "sandbox"} {
		binary, err := b.compile(program, goos, arch)
		if err != nil {
			return err
		}
		name := "orderpost"
		files := []file{{path: filepath.Base(binary), from: binary, mode: 0o755}}
		switch program {
		case "orderpost":
			files = append(files, b.shared...)
			if goos == "linux" {
				files = append(files, b.units()...)
			}
		default: // it never ships beside the worker
			name += "-" + program
			files = append(files, b.notices()...)
		}
		bom := b.named(name, goos, arch) + ".cdx.json"
		if err := b.sbom(bom, name, binary); err != nil {
			return err
		}
		if err := b.archive(b.named(name, goos, arch), goos, files); err != nil {
			return err
		}
		if program == "orderpost" && goos == "linux" {
			if err := b.packages(arch, binary, filepath.Join(b.out, bom)); err != nil {
				return err
			}
		}
	}
	return nil
}

// named is the name of what is built, without its ending.
func (b *build) named(name, goos, arch string) string {
	return strings.Join([]string{name, strings.TrimPrefix(b.version, "v"), goos, arch}, "_")
}

func (b *build) compile(program, goos, arch string) (path string, err error) {
	path = filepath.Join(b.work, goos+"-"+arch, program)
	if program != "orderpost" {
		path = filepath.Join(filepath.Dir(path), "orderpost-"+program)
	}
	if goos == "windows" {
		path += ".exe"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X orderpost/internal/cli.release="+b.version, "-o", path, "./cmd/"+program)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", err
	}
	if goos != runtime.GOOS || arch != runtime.GOARCH {
		return path, nil
	}
	said, err := exec.Command(path, "--version").Output()
	if err != nil || !strings.Contains(string(said), b.version) {
		return "", fmt.Errorf("%s --version says %q instead of %s (%v)", program, said, b.version, err)
	}
	return path, nil
}

// create makes a file of the release.
func (b *build) create(name string) (*os.File, error) {
	b.made = append(b.made, name)
	fmt.Println(name)
	return os.Create(filepath.Join(b.out, name))
}

// checksums writes SHA256SUMS, for sha256sum --check.
func (b *build) checksums() error {
	slices.Sort(b.made)
	var sums strings.Builder
	for _, name := range b.made {
		sum, err := b.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // it is for others
}

// sum is a file's SHA-256.
func (b *build) sum(name string) (string, error) {
	f, err := os.Open(filepath.Join(b.out, name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
