package syncs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handOver is the descriptor over which Exec gives the listener to Watch.Start: the first of
// exec.Cmd.ExtraFiles.
const handOver = 3

// What Exec says when it hands over: the listener, or that the kernel gave none.
const taken, refused = 't', 'r'

// architectures by GOARCH, whose numbers of system calls this program knows.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id           uint64
	val          int64
	error, flags uint32
}

// goOn makes the kernel do what was asked (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
const goOn = 1

// Offsets in struct seccomp_data.
const (
	atNumber       = 0
	atArchitecture = 4
	atOpenFlags    = 16 + 2*8
)

// filter asks the listener before an fsync, fdatasync, or openat with O_DSYNC, which is part
// of O_SYNC. Everything else is allowed.
func filter(architecture uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	return []unix.SockFilter{
		load(atArchitecture),
		equal(architecture, 0, 6),
		load(atNumber),
		equal(unix.SYS_FSYNC, 5, 0),
		equal(unix.SYS_FDATASYNC, 4, 0),
		equal(unix.SYS_OPENAT, 0, 2),
		load(atOpenFlags),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 1, Jf: 0, K: unix.O_DSYNC},
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_USER_NOTIF),
	}
}

// Exec makes this process, which Watch.Start started, the command that is to be watched.
func Exec(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is this thread's, and exec ends the others
	listener, err := listen()
	if err != nil {
		return errors.Join(err, unix.Sendmsg(handOver, []byte{refused}, nil, nil, 0))
	}
	if err := unix.Sendmsg(handOver, []byte{taken}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	_, _ = unix.Close(listener), unix.Close(handOver)
	return syscall.Exec(path, command, os.Environ())
}

func listen() (int, error) {
	architecture, ok := architectures[runtime.GOARCH]
	if !ok {
		return 0, fmt.Errorf("fsyncs are not counted on %s", runtime.GOARCH)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	code := filter(architecture)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	var errno syscall.Errno
	// A signal must not begin the fsync again. Kernels before 5.19 cannot help that.
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		var fd uintptr
		fd, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
		runtime.KeepAlive(code)
		if errno == 0 {
			return int(fd), nil
		}
	}
	return 0, fmt.Errorf("seccomp: %w", errno)
}

// Start starts cmd, a program that calls Exec, and watches it until all its processes have
// ended. The error wraps errors.ErrUnsupported if that is not possible here.
func (w *Watch) Start(cmd *exec.Cmd) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer func() { _ = ours.Close() }()
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return err
	}
	listener, err := receive(int(ours.Fd()))
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended by itself
		return errors.Join(err, cmd.Wait())
	}
	go w.serve(listener)
	return nil
}

// receive takes the listener over.
func receive(socket int) (int, error) {
	said, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(socket, said, rights, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, errors.New("it ended before it handed its listener over")
	case said[0] == refused:
		return 0, fmt.Errorf("fsyncs cannot be counted here: seccomp gave no listener: %w", errors.ErrUnsupported)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) == 0 {
		return 0, errors.Join(errors.New("no listener came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return 0, errors.Join(errors.New("no listener came"), err)
	}
	return fds[0], nil
}

func (w *Watch) serve(listener int) {
	defer func() { _ = unix.Close(listener) }()
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		switch _, err := unix.Poll(poll, -1); {
		case err == unix.EINTR:
			continue
		case err != nil:
			w.fail(err)
			return
		case poll[0].Revents&unix.POLLIN == 0: // all have ended
			return
		}
		var n notification
		if errno := request(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno == unix.ENOENT || errno == unix.EINTR {
			continue // it was killed meanwhile
		} else if errno != 0 {
			w.fail(errno)
			return
		}
		if path := asked(n); inMemory(path) {
			answer(listener, n.id)
		} else {
			w.note(path)
			time.AfterFunc(w.Delay, func() { answer(listener, n.id) })
		}
	}
}

func request(fd int, code uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), code, uintptr(arg))
	return errno
}

// answer lets the process go on. If that fails, the process has ended.
func answer(listener int, id uint64) {
	r := response{id: id, flags: goOn}
	_ = request(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// asked returns the path of what is to be synced, or opened.
func asked(n notification) string {
	process := "/proc/" + strconv.Itoa(int(n.pid))
	if n.nr != unix.SYS_OPENAT {
		path, _ := os.Readlink(process + "/fd/" + strconv.FormatUint(n.args[0], 10)) // "" is no path in memory
		return path
	}
	memory, err := os.Open(process + "/mem")
	if err != nil {
		return ""
	}
	defer func() { _ = memory.Close() }()
	text := make([]byte, unix.PathMax)
	read, _ := memory.ReadAt(text, int64(n.args[1])) // the end of the memory may come first
	name, _, _ := bytes.Cut(text[:read], []byte{0})
	if path := string(name); filepath.IsAbs(path) {
		return path
	}
	from := process + "/cwd"
	if fd := int32(n.args[0]); fd != unix.AT_FDCWD {
		from = process + "/fd/" + strconv.Itoa(int(fd))
	}
	folder, _ := os.Readlink(from)
	return filepath.Join(folder, string(name))
}

// inMemory reports whether a path is on a file system in memory.
func inMemory(path string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err != nil { // it is to be created
		err = unix.Statfs(filepath.Dir(path), &st)
	}
	return err == nil && st.Type == unix.TMPFS_MAGIC
}
