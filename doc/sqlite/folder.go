package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"cowrite/doc"
)

const (
	databaseName = "cowrite.db"
	lockName     = "cowrite.lock"

	folderMode = 0o700
	fileMode   = 0o600
)

// lockPatience is how long a server waits for the lock, because a command beside it may have it for a moment.
const (
	lockPatience = time.Second
	pollInterval = 10 * time.Millisecond
)

// makeFolder makes the folder, unless it is there, and an empty database in it: SQLite itself would make
// the file readable for everybody, and gives its companions the mode of the database.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, folderMode); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
		if err := syncFolder(filepath.Dir(dir)); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("open data folder: %w", err)
	case !info.IsDir():
		return fmt.Errorf("open data folder: %s is not a folder", dir)
	}
	// Only if it is not there: to open and close a database that this process has open would drop SQLite's POSIX locks.
	f, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write to data folder: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write to data folder: %w", err)
	}
	return syncFolder(dir)
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// folderLock is the exclusive lock of a folder. The kernel releases it when the process ends, however it ends.
type folderLock struct{ file *os.File }

// lockFolder takes the lock. When another has it: nil for who opens beside, doc.ErrInUse for a server.
func lockFolder(ctx context.Context, dir string, beside bool) (*folderLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	patience := time.NewTimer(lockPatience)
	defer patience.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &folderLock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock data folder %s: %w", dir, err), f.Close())
		}
		if beside {
			return nil, f.Close()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock data folder: %w", ctx.Err()), f.Close())
		case <-patience.C:
			return nil, errors.Join(fmt.Errorf("data folder %s is %w", dir, doc.ErrInUse), f.Close())
		case <-time.After(pollInterval):
		}
	}
}

// release lets go of the lock; of none it does nothing.
func (l *folderLock) release() error {
	if l == nil {
		return nil
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release data folder: %w", err)
	}
	return nil
}
