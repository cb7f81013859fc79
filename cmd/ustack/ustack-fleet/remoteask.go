package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// countedOnce limits samples to those of reports that are there as a whole, each in one
// batch.
const countedOnce = "(report, batch) GLOBAL IN (SELECT report, max(batch) FROM devices GROUP BY report)"

// reportsOfSeveral are those of recordings with reports of the same time; firstOf limits samples
// to their waits with thread and time, each in the report that it counts in, and countedHere
// leaves the others out. Two pushes at once can have left a report twice in devices.
const (
	reportsOfSeveral = `(SELECT report FROM devices WHERE recording GLOBAL IN (
    SELECT recording
    FROM (SELECT DISTINCT recording, report, assumeNotNull(begun) AS first_ns, assumeNotNull(begun) + duration_ns AS last_ns FROM devices WHERE begun IS NOT NULL)
    GROUP BY recording
    HAVING arrayExists((next, ended) -> next < ended,
      arrayPopFront(arraySort(groupArray(first_ns))), arrayPopBack(arrayMap(span -> span.2, arraySort(groupArray((first_ns, last_ns))))))))`
	sameWait    = "assumeNotNull(tid), assumeNotNull(time), assumeNotNull(ns)"
	ofSeveral   = "ns IS NOT NULL AND tid IS NOT NULL AND time IS NOT NULL AND report GLOBAL IN " + reportsOfSeveral + " AND " + countedOnce
	firstOf     = "(SELECT min(report), device, " + sameWait + " FROM samples WHERE " + ofSeveral + " GROUP BY device, " + sameWait + ")"
	countedHere = "(report GLOBAL NOT IN " + reportsOfSeveral + " OR tid IS NULL OR time IS NULL OR (report, device, " + sameWait + ") GLOBAL IN " + firstOf + ")"
)

// remoteStatement returns a question as SQL for ClickHouse, of 2018 and later. It has the
// answer that the tables in a directory have. asked is the table of the operating systems that
// diff compares: side, which is 0 or 1, and os.
//
// Only GLOBAL subqueries are right for Distributed tables: the server that is asked answers
// them once for all shards. Names of results differ from those of columns, as old servers take
// the one for the other.
func remoteStatement(f *fleet.Ask, asked string) string {
	switch f.Question {
	case fleet.Devices:
		return fmt.Sprintf(`SELECT device, min_os AS os, min_kernel AS kernel, reports, all_duplicates AS duplicates, all_events AS events, all_lost AS lost,
  all_waits - toInt64(ifNull(again, 0)) AS waits, %s AS total_ns
FROM (
  SELECT device, min(os) AS min_os, min(kernel) AS min_kernel, count() AS reports,
    sum(duplicates) AS all_duplicates, sum(events) AS all_events, %s AS all_lost, sum(waits) AS all_waits, sum(waited_ns) AS all_ns, sum(toFloat64(waited_ns)) AS about_ns
  FROM devices FINAL
  GROUP BY device
)
ANY LEFT JOIN (
  SELECT device, count() AS again, sum(assumeNotNull(ns)) AS again_ns, sum(toFloat64(assumeNotNull(ns))) AS again_about
  FROM samples
  WHERE %s
    AND (report, device, %s) GLOBAL NOT IN %s
  GROUP BY device
) USING (device)
ORDER BY total_ns DESC, device
LIMIT %d`, remoteCapped("all_ns - ifNull(again_ns, 0)", "about_ns - ifNull(again_about, 0)"), remoteCapped("sum(lost)", "sum(toFloat64(lost))"), ofSeveral, sameWait, firstOf, f.Top)
	case fleet.Diff:
		return remoteDiff(f, asked)
	}
	return remoteNamed(f, "total_ns, waits, devices, percent, p99_ns", fmt.Sprintf(`SELECT lock_key, %s AS total_ns, sum(path_waits) AS waits, uniqExactMerge(path_devices) AS devices,
  floor(1000 * uniqExactMerge(path_devices) / (SELECT uniqExact(device) FROM devices) + 0.5) / 10 AS percent,
  %s AS p99_ns,
  %s
FROM (
  SELECT lock_key, %s,
    sum(ns * weight) AS path_ns, count() AS path_waits, uniqExactState(device) AS path_devices,
    quantileExactState(%s)(assumeNotNull(ns)) AS path_times
  FROM samples
  WHERE ns IS NOT NULL AND lock_key IS NOT NULL%s
    AND %s
    AND %s
  GROUP BY lock_key, path
)
GROUP BY lock_key`, remoteWhole("sum(path_ns)"), remoteP99(f), remoteWhere, remotePath, remoteLevel, remoteLocks(f), countedOnce, countedHere), string(f.By))
}

// remoteWhole is a total as a whole number: see wholeNS.
func remoteWhole(total string) string {
	return fmt.Sprintf("toInt64(least(floor(%s + 0.5), toFloat64(%d)))", total, int64(fleet.MostNS))
}

// remoteCapped is a sum of whole numbers that wraps around, fleet.MostNS if it is more: see total.
func remoteCapped(sum, about string) string {
	return fmt.Sprintf("if(%[2]s < toFloat64(%[3]d), %[1]s, toInt64(%[3]d))", sum, about, int64(fleet.MostNS))
}

// remoteLocks limits samples to those of locks, if that is wanted.
func remoteLocks(f *fleet.Ask) string {
	if f.Locks {
		return " AND is_lock = 1"
	}
	return ""
}

// remoteNamed returns a statement with the first rows of another one, in an order, and with
// the functions of their sites.
func remoteNamed(f *fleet.Ask, columns, rows, order string) string {
	return fmt.Sprintf(`SELECT %s, kind, lock, file, build_id, offset, function
FROM (
%s
ORDER BY %s DESC, lock_key
LIMIT %d
)
ANY LEFT JOIN (
  SELECT toNullable(build_id) AS build_id, toNullable(offset) AS offset, toNullable(ran) AS ran, function FROM functions FINAL
) USING (build_id, offset, ran)
ORDER BY %s DESC, lock_key`, columns, rows, order, f.Top, order)
}

// remoteLevel is that of a p99: see remoteP99.
const remoteLevel = "0.98999999999"

// remoteP99 is the smallest time that is not shorter than 99 of 100, as atMost rounds it if it is not
// to be exact. ClickHouse takes the element at floor(level * n), and this is to be the one at
// ceil(0.99 * n) - 1.
func remoteP99(f *fleet.Ask) string {
	const exact = "quantileExactMerge(" + remoteLevel + ")(path_times)"
	if f.Exact {
		return exact
	}
	step := fmt.Sprintf("greatest(intDiv(roundToExp2(%s), %d), 1)", exact, 1<<(durationBits-1))
	return fmt.Sprintf("toInt64((intDiv(%[1]s, %[2]s) + 1) * %[2]s - 1)", exact, step)
}

// remotePath are the columns that say which lock it is, of those of its waits that have one path of
// the site's file; remoteWhere are those of all, with the path that most devices report: see lockSum.path.
const (
	remotePath = `if(lock_name IS NULL, site_path, NULL) AS path, uniqExact(device) AS reporting, min(lock_kind) AS path_kind, min(lock_name) AS path_lock,
    minIf(site_build_id, lock_name IS NULL) AS path_id, minIf(site_offset, lock_name IS NULL) AS path_offset, min(site_ran) AS path_ran`
	remoteWhere = `min(path_kind) AS kind, min(path_lock) AS lock,
  if(countIf(path IS NOT NULL) = 0, NULL, arraySort(groupArrayIf((-toInt64(reporting), assumeNotNull(path)), path IS NOT NULL))[1].2) AS file,
  min(path_id) AS build_id, min(path_offset) AS offset, min(path_ran) AS ran`
)

func remoteDiff(f *fleet.Ask, asked string) string {
	of := func(side int) string { return fmt.Sprintf("(SELECT os FROM %s WHERE side = %d)", asked, side) }
	here := func(side int) string {
		return fmt.Sprintf("report GLOBAL IN (SELECT report FROM devices WHERE os GLOBAL IN %s)", of(side))
	}
	each := func(side int) string {
		return remoteWhole(fmt.Sprintf("ifNull(sum(path_ns_%d), 0) / (SELECT uniqExact(device) FROM devices WHERE os GLOBAL IN %s)", side, of(side)))
	}
	return remoteNamed(f, "a_ns, b_ns, a_devices, b_devices", fmt.Sprintf(`SELECT * FROM (
  SELECT lock_key, %s AS a_ns,
    %s AS b_ns,
    uniqExactMerge(path_devices_0) AS a_devices, uniqExactMerge(path_devices_1) AS b_devices,
    %s
  FROM (
    SELECT lock_key, %s,
      sumIf(ns * weight, here = 0) AS path_ns_0, sumIf(ns * weight, here = 1) AS path_ns_1,
      uniqExactStateIf(device, here = 0) AS path_devices_0, uniqExactStateIf(device, here = 1) AS path_devices_1
    FROM (
      SELECT lock_key, ns, weight, device, lock_kind, lock_name, site_path, site_build_id, site_offset, site_ran,
        multiIf(%s, 0, %s, 1, 2) AS here
      FROM samples
      WHERE ns IS NOT NULL AND lock_key IS NOT NULL%s
        AND %s
        AND %s
    )
    WHERE here < 2
    GROUP BY lock_key, path
  )
  GROUP BY lock_key
)`, each(0), each(1), remoteWhere, remotePath, here(0), here(1), remoteLocks(f), countedOnce, countedHere), "b_ns - a_ns")
}

// inline returns the table of the operating systems as a part of a statement, for one that is
// printed. Every byte that is not a letter or a digit is escaped.
func inline(f *fleet.Ask) string {
	return fmt.Sprintf("(SELECT toUInt8(0) AS side, '%s' AS os UNION ALL SELECT toUInt8(1) AS side, '%s' AS os)", escape(f.A), escape(f.B))
}

func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ' ' || c == '.' || c == '-' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	return b.String()
}

// external returns that table as one that is sent with the statement.
func external(f *fleet.Ask) clickhouse.External {
	t := clickhouse.External{Name: "asked", Structure: "side UInt8, os String"}
	t.Body = clickhouse.AppendString(append(t.Body, 0), f.A)
	t.Body = clickhouse.AppendString(append(t.Body, 1), f.B)
	return t
}

// askServer answers a question by a server.
func askServer(ctx context.Context, f *fleet.Ask, out io.Writer) error {
	credentials, err := fleet.LoadCredentials(f.Credentials, os.Getenv)
	if err != nil {
		return err
	}
	client := clickhouse.New(f.Server, credentials, nil)
	if f.Question == fleet.Diff {
		if err := haveSystems(ctx, f, client); err != nil {
			return err
		}
	}
	rows, err := client.Query(ctx, remoteStatement(f, "asked"), external(f))
	if err != nil {
		return hint(err)
	}
	columns := columnsOfAnswer(f.Question)
	values := make([][]any, len(rows))
	for i, row := range rows {
		if values[i], err = valuesOf(columns, row); err != nil {
			return err
		}
	}
	return write(f, out, columns, values)
}

// haveSystems returns an error if no device has one of the operating systems.
func haveSystems(ctx context.Context, f *fleet.Ask, client *clickhouse.Client) error {
	rows, err := client.Query(ctx, "SELECT DISTINCT os FROM devices WHERE os GLOBAL IN (SELECT os FROM asked)", external(f))
	if err != nil {
		return hint(err)
	}
	have := make(map[string]bool)
	for _, row := range rows {
		if row[0] != nil {
			have[*row[0]] = true
		}
	}
	for _, os := range []string{f.A, f.B} {
		if !have[os] {
			err = errors.Join(err, noSystem(os))
		}
	}
	return err
}

func noSystem(os string) error {
	return fmt.Errorf("no device has the operating system %q: ustack fleet devices lists them", os)
}

// valuesOf returns the values of a row.
func valuesOf(columns []string, row []*string) ([]any, error) {
	if len(row) != len(columns) {
		return nil, fmt.Errorf("the answer of the server has %d columns, and not %d", len(row), len(columns))
	}
	values := make([]any, len(row))
	for i, cell := range row {
		if cell == nil {
			continue
		}
		var err error
		switch {
		case columns[i] == "percent":
			values[i], err = strconv.ParseFloat(*cell, 64)
		case isText(columns[i]):
			values[i] = *cell
		default:
			values[i], err = strconv.ParseInt(*cell, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the column %s of the answer: %w", columns[i], err)
		}
	}
	return values, nil
}

// isText reports whether a column of an answer is a text.
func isText(column string) bool {
	switch column {
	case "kind", "lock", "file", "build_id", "function", "device", "os", "kernel":
		return true
	}
	return false
}

// columnsOfAnswer returns the columns of the answer to a question.
func columnsOfAnswer(q fleet.Question) []string {
	switch q {
	case fleet.Devices:
		return []string{"device", "os", "kernel", "reports", "duplicates", "events", "lost", "waits", "total_ns"}
	case fleet.Diff:
		return []string{"a_ns", "b_ns", "a_devices", "b_devices", "kind", "lock", "file", "build_id", "offset", "function"}
	}
	return []string{"total_ns", "waits", "devices", "percent", "p99_ns", "kind", "lock", "file", "build_id", "offset", "function"}
}
