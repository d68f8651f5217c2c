package main

import (
	"context"
	"database/sql"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	_ "modernc.org/sqlite" // the driver that River is tested with
)

// countStored counts the jobs whose outcome is stored: River writes the output together
// with the state.
const countStored = `SELECT count(*) FROM river_job WHERE state = 'completed' AND metadata`

func onPostgres(ctx context.Context, o options) (r result, err error) {
	pool, err := pgxpool.New(ctx, o.database)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	return onRiver(ctx, o, riverpgxv5.New(pool), func(ctx context.Context) (n int, err error) {
		return n, pool.QueryRow(ctx, countStored+` ? 'output'`).Scan(&n)
	})
}

// onSQLite opens the database with the settings under which SQLite promises that a
// confirmed commit survives a power cut. One connection is what River's driver advises.
func onSQLite(ctx context.Context, o options) (r result, err error) {
	settings := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+o.database+"?"+settings.Encode())
	if err != nil {
		return r, err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	return onRiver(ctx, o, riversqlite.New(db), func(ctx context.Context) (n int, err error) {
		return n, db.QueryRowContext(ctx, countStored+` -> 'output' IS NOT NULL`).Scan(&n)
	})
}
