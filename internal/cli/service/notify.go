package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifyTimeout bounds one message to systemd. The socket's queue is short: a
// manager that reads nothing must not keep a worker from ending.
const notifyTimeout = time.Second

// sdNotify sends one message of sd_notify(3) to NOTIFY_SOCKET. It is not go-systemd's,
// which waits for ever where nobody reads.
func sdNotify(lines ...string) error {
	path := os.Getenv("NOTIFY_SOCKET") // with "@" it is an abstract one, as in package net
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	return err
}

// watchdogPeriod is how often at least systemd wants to hear from this process;
// 0 = it does not.
func watchdogPeriod() (time.Duration, error) {
	usec, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("WATCHDOG_USEC: %q is not a number of microseconds", usec)
	}
	return time.Duration(n) * time.Microsecond, nil
}
