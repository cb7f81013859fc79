package fleet

import (
	"fmt"
	"strings"
)

// Question is what is asked of the tables.
type Question string

// The questions.
const (
	Top     Question = "top"     // which locks cost most, over all devices
	Devices Question = "devices" // which devices there are, and how long their threads wait
	Diff    Question = "diff"    // what is waited for in one operating system and not in another
	Causes  Question = "causes"  // which stacks of waiters and owners cost most, the similar ones as one
	// Estimate: which locks cost most, with the bounds of that where reports stand for others.
	Estimate Question = "estimate"
)

func (q Question) known() bool { return q == Top || q == Devices || q == Diff || q.inMemory() }

// inMemory reports whether a question is answered from a directory only, and has no SQL.
func (q Question) inMemory() bool { return q == Causes || q == Estimate }

// Order is what the locks of an answer are sorted by.
type Order string

// The orders, which are names of columns.
const (
	ByTotal   Order = "total_ns"
	ByDevices Order = "devices"
	ByP99     Order = "p99_ns"
	ByWaits   Order = "waits"
)

func (o *Order) set(name string) error {
	switch name {
	case "total", "p99":
		*o = Order(name + "_ns")
	case "devices", "waits":
		*o = Order(name)
	default:
		return fmt.Errorf("it is total, devices, p99 or waits")
	}
	return nil
}

// Statement returns the question as SQL for DuckDB. It has the same answer as Answer gives,
// row by row; names that a user chose are quoted.
func (f *Ask) Statement() string {
	switch f.Question {
	case Devices:
		return f.devicesSQL()
	case Diff:
		return f.diffSQL()
	}
	return f.topSQL()
}

// topSQL chooses the locks first, by what they are sorted by alone, and answers the rest for these:
// devices, percentiles and names of all locks would take several times as much time and memory.
func (f *Ask) topSQL() string {
	if f.Sums {
		return f.topOfSums()
	}
	return f.named("total_ns, waits, devices, percent, p99_ns", fmt.Sprintf(`SELECT lock_key, %[1]s AS total_ns, %[2]s AS waits,
  %[3]s AS devices,
  %[11]s AS percent,
  %[4]s AS p99_ns,
  %[6]s
FROM %[7]s
WHERE lock_key IN (
  SELECT lock_key FROM %[7]s
  WHERE true%[8]s
  GROUP BY lock_key
  ORDER BY %[9]s DESC, lock_key
  LIMIT %[10]d)%[8]s
GROUP BY lock_key`, orderSQL[ByTotal], orderSQL[ByWaits], orderSQL[ByDevices], f.p99SQL(), f.table("devices"), whereSQL, f.countedSQL(), f.locksSQL(), f.orderBy(), f.Top, f.percentSQL()), string(f.By), f.countedSQL())
}

// percentSQL is the share of devices that wait for a lock.
func (f *Ask) percentSQL() string {
	return fmt.Sprintf("round(100.0 * count(DISTINCT device) / (SELECT count(DISTINCT device) FROM %s), 1)", f.table("devices"))
}

// p99SQL is the time that 99 of 100 samples do not exceed.
func (f *Ask) p99SQL() string {
	if f.Exact {
		return orderSQL[ByP99]
	}
	return atMost(orderSQL[ByP99])
}

// orderBy is the column by which locks are sorted.
func (f *Ask) orderBy() string {
	if f.By == ByP99 {
		return f.p99SQL()
	}
	return orderSQL[f.By]
}

// MostNS bounds a total: it is the largest float64 that fits into 64 bits. A report can have a weight
// and times with which its total does not, and the question has an answer for the others all the same.
const MostNS = 1<<63 - 1<<10

// roundSQL is a total as a whole number, a half rounded up: CAST alone has the next even number.
func roundSQL(total string) string {
	return fmt.Sprintf("CAST(least(round(%s), %d.0::DOUBLE) AS BIGINT)", total, int64(MostNS))
}

// cappedSQL is a sum of whole numbers, MostNS if it is more.
func cappedSQL(sum string) string {
	return fmt.Sprintf("CAST(least(%s, %d) AS BIGINT)", sum, int64(MostNS))
}

// orderSQL are the columns by which locks are sorted.
var orderSQL = map[Order]string{
	ByTotal: roundSQL("sum(ns * weight)"), ByWaits: "count(*)", ByDevices: "count(DISTINCT device)", ByP99: "quantile_disc(ns, 0.99)",
}

// whereSQL are the columns that say which lock it is.
const whereSQL = `min(lock_kind) AS kind, min(lock_name) AS lock,
  min(site_build_id) FILTER (lock_name IS NULL) AS build_id, min(site_offset) FILTER (lock_name IS NULL) AS "offset", min(site_ran) AS ran`

// locksSQL limits samples to those of locks, if that is wanted.
func (f *Ask) locksSQL() string {
	if f.Locks {
		return " AND is_lock"
	}
	return ""
}

// severalSQL are the reports of recordings with reports of the same time.
func (f *Ask) severalSQL() string {
	return fmt.Sprintf(`SELECT report FROM %[1]s WHERE recording IN (
    SELECT recording FROM (
      SELECT recording, epoch_ns(begun) + duration_ns AS ended, epoch_ns(lead(begun) OVER (PARTITION BY recording ORDER BY begun, duration_ns)) AS next
      FROM %[1]s WHERE begun IS NOT NULL)
    WHERE next < ended)`, f.table("devices"))
}

// firstSQL is the condition of a wait that counts in its report: of the reports in which it is,
// the one with the lowest key.
const firstSQL = "(tid IS NULL OR time IS NULL OR report = min(report) OVER (PARTITION BY device, tid, time, ns))"

// againSQL are waits that count in another report.
func (f *Ask) againSQL() string {
	return fmt.Sprintf("SELECT * FROM %s WHERE ns IS NOT NULL AND report IN (%s)\n    QUALIFY NOT %s", f.table("samples"), f.severalSQL(), firstSQL)
}

// countedSQL are the waits with a time, each once. Few reports need a comparison: the others
// are not part of it.
func (f *Ask) countedSQL() string {
	return fmt.Sprintf(`(
  SELECT * FROM %[1]s WHERE ns IS NOT NULL AND report NOT IN (%[2]s)
  UNION ALL
  SELECT * FROM %[1]s WHERE ns IS NOT NULL AND report IN (%[2]s)
  QUALIFY %[3]s
)`, f.table("samples"), f.severalSQL(), firstSQL)
}

// named returns a statement with the first rows of another one, in an order, with the functions of
// their sites, and with the paths of these that most devices report in waits, which are those that
// the rows sum up: a report that gives a known build ID a path of its own does not rename the file for
// others.
func (f *Ask) named(columns, rows, order, waits string) string {
	function, join := "CAST(NULL AS VARCHAR)", ""
	if f.Functions != "" {
		function, join = "f.function", "\nLEFT JOIN read_parquet("+quote(escapeGlob(f.Functions))+`) f ON f.build_id = t.build_id AND f."offset" = t."offset" AND f.ran = t.ran`
	}
	return fmt.Sprintf(`WITH t AS MATERIALIZED (
SELECT * FROM (
%s
)
ORDER BY %s DESC, lock_key
LIMIT %d
)
SELECT %s, kind, lock, file, t.build_id, t."offset", %s AS function
FROM t
LEFT JOIN (
  SELECT lock_key, site_path AS file FROM (
    SELECT lock_key, site_path, count(DISTINCT device) AS reporting FROM %s
    WHERE lock_key IN (SELECT lock_key FROM t) AND lock_name IS NULL AND site_path IS NOT NULL%s
    GROUP BY lock_key, site_path
  )
  QUALIFY row_number() OVER (PARTITION BY lock_key ORDER BY reporting DESC, site_path) = 1
) p USING (lock_key)%s
ORDER BY %s DESC, lock_key;
`, rows, order, f.Top, columns, function, waits, f.locksSQL(), join, order)
}

func (f *Ask) devicesSQL() string {
	duplicates := "CAST(coalesce(sum(duplicates), 0) AS BIGINT)"
	if f.Older {
		duplicates = "CAST(0 AS BIGINT)"
	}
	return fmt.Sprintf(`SELECT d.device, d.os, d.kernel, d.reports, d.duplicates, d.events, d.lost,
  CAST(d.waits - coalesce(r.waits, 0) AS BIGINT) AS waits, %s AS total_ns
FROM (
  SELECT device, min(os) AS os, min(kernel) AS kernel, count(*) AS reports,
    %s AS duplicates, CAST(sum(events) AS BIGINT) AS events, %s AS lost, sum(waits) AS waits, sum(waited_ns) AS ns
  FROM %s
  GROUP BY device
) d
LEFT JOIN (
  SELECT device, count(*) AS waits, sum(ns) AS ns
  FROM (
    %s
  )
  GROUP BY device
) r ON r.device = d.device
ORDER BY total_ns DESC, d.device
LIMIT %d;
`, cappedSQL("d.ns - coalesce(r.ns, 0)"), duplicates, cappedSQL("sum(lost)"), f.table("devices"), f.againSQL(), f.Top)
}

func (f *Ask) diffSQL() string {
	return f.named("a_ns, b_ns, a_devices, b_devices", fmt.Sprintf(`SELECT * FROM (
WITH os AS (SELECT os, count(DISTINCT device) AS devices FROM %[1]s GROUP BY os),
s AS (
  SELECT s.*, d.os FROM %[2]s s JOIN (SELECT report, os FROM %[1]s) d USING (report)
  WHERE lock_key IS NOT NULL AND d.os IN (%[3]s, %[4]s)%[5]s
)
SELECT lock_key,
  %[9]s AS a_ns,
  %[10]s AS b_ns,
  %[7]s AS a_devices,
  %[8]s AS b_devices,
  %[6]s
FROM s
GROUP BY lock_key)`, f.table("devices"), f.rowsSQL(), quote(f.A), quote(f.B), f.locksSQL(), whereSQL, f.devicesOfLocks(" AND os = "+quote(f.A)), f.devicesOfLocks(" AND os = "+quote(f.B)), eachSQL(f.A), eachSQL(f.B)), "b_ns - a_ns",
		fmt.Sprintf("(SELECT s.* FROM %s s JOIN %s d USING (report) WHERE d.os IN (%s, %s))", f.rowsSQL(), f.table("devices"), quote(f.A), quote(f.B)))
}

// eachSQL is the total of the devices of an operating system, for each of them.
func eachSQL(os string) string {
	return roundSQL(fmt.Sprintf("coalesce(sum(ns * weight) FILTER (os = %[1]s), 0) / (SELECT devices FROM os WHERE os = %[1]s)", quote(os)))
}

// table returns the files of a table. Those of devices can be of versions with different columns.
func (f *Ask) table(name string) string {
	more := ""
	if name == "devices" {
		more = ", union_by_name = true"
	}
	return "read_parquet(" + quote(escapeGlob(strings.TrimSuffix(f.Dir, "/"))+"/"+PartGlob+"/"+name+".parquet") + more + ")"
}

// escapeGlob returns a path that matches itself where DuckDB takes patterns.
func escapeGlob(path string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(path)
}

// quote returns a text as a literal of SQL.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// PartPrefix begins the name of a directory with the tables of one export; PartGlob matches
// these.
const (
	PartPrefix = "part-"
	PartGlob   = PartPrefix + "*"
)
