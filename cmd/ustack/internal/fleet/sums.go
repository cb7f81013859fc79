package fleet

import "fmt"

// The questions are answered from the tables that sum up samples, but for reports of recordings with
// reports of the same time: which of their waits count, only samples say.

// TakesSums reports whether a question is answered from sums, if there are any.
func (f *Ask) TakesSums() bool {
	return !f.Exact && f.Server == nil && (f.Question == Top || f.Question == Diff)
}

// rowsSQL are rows by which waits are summed up: sums, or else single waits, of which more is NULL.
func (f *Ask) rowsSQL() string {
	if !f.Sums {
		return f.countedSQL()
	}
	more := "more"
	if f.Locks { // of a report and a lock, one row is left
		more = "false"
	}
	const columns = "report, device, lock_key, is_lock, lock_kind, lock_name, site_path, site_build_id, site_offset, site_ran, ns, weight"
	return fmt.Sprintf(`(
  SELECT %[1]s, waits, %[6]s AS more FROM %[2]s WHERE report NOT IN (%[3]s)
  UNION ALL
  SELECT %[1]s, 1 AS waits, NULL AS more FROM %[4]s WHERE ns IS NOT NULL AND report IN (%[3]s)
  QUALIFY %[5]s
)`, columns, f.table("sums"), f.severalSQL(), f.table("samples"), firstSQL, more)
}

// topOfSums is topSQL for tables with sums.
func (f *Ask) topOfSums() string {
	order := map[Order]string{ByTotal: orderSQL[ByTotal], ByWaits: sumOfWaits, ByDevices: f.devicesOfLocks("")}[f.By]
	chosen := fmt.Sprintf(`SELECT lock_key FROM %s
    WHERE true%s
    GROUP BY lock_key
    ORDER BY %s DESC, lock_key
    LIMIT %d`, f.rowsSQL(), f.locksSQL(), order, f.Top)
	p99 := "(" + f.p99OfSums("lock_key IN (SELECT lock_key FROM chosen)") + ")"
	if f.By == ByP99 { // they are chosen by it
		chosen = fmt.Sprintf(`SELECT * FROM (%s)
    ORDER BY p99_ns DESC, lock_key
    LIMIT %d`, f.p99OfSums("true"), f.Top)
		p99 = "chosen"
	}
	return f.named("total_ns, waits, devices, percent, p99_ns", fmt.Sprintf(`WITH chosen AS MATERIALIZED (
  %s
)
SELECT * FROM (
  SELECT lock_key, %s AS total_ns, %s AS waits,
    %s AS devices,
    %s AS percent,
    %s
  FROM %s
  WHERE lock_key IN (SELECT lock_key FROM chosen)%s
  GROUP BY lock_key
)
JOIN %s USING (lock_key)`, chosen, orderSQL[ByTotal], sumOfWaits, orderSQL[ByDevices], f.percentSQL(), whereSQL, f.rowsSQL(), f.locksSQL(), p99), string(f.By), f.rowsSQL())
}

const sumOfWaits = "CAST(sum(waits) AS BIGINT)"

// devicesOfLocks counts the devices of each lock, of the rows that meet a condition, "" for all. Of a
// device with one report, that is the number of first rows, and no set of all pairs of device and lock is
// needed.
func (f *Ask) devicesOfLocks(condition string) string {
	if !f.Sums {
		return fmt.Sprintf("count(DISTINCT device) FILTER (true%s)", condition)
	}
	single := fmt.Sprintf("report IN (SELECT any_value(report) FROM %s GROUP BY device HAVING count(*) = 1)", f.table("devices"))
	return fmt.Sprintf("count(*) FILTER (%[1]s AND NOT more%[2]s) + count(DISTINCT device) FILTER ((NOT %[1]s OR more IS NULL)%[2]s)", single, condition)
}

// p99OfSums are locks with the time that 99 of 100 of their waits do not exceed, for those that meet
// a condition: first in which power of two it is, then where in there, as a table of all durations
// would be large. Waits that do not count are taken off again.
func (f *Ask) p99OfSums(condition string) string {
	const octave = "floor(log2(at_most_ns + 1))"
	rows := fmt.Sprintf(`(
      SELECT lock_key, is_lock, at_most_ns, waits FROM %s
      UNION ALL
      SELECT lock_key, is_lock, %s AS at_most_ns, -1 AS waits FROM (
    %s
      )
    )`, f.table("durations"), atMost("ns"), f.againSQL())
	return fmt.Sprintf(`WITH coarse AS MATERIALIZED (
    SELECT lock_key, octave, below - waits AS before, n FROM (
      SELECT *, sum(waits) OVER (PARTITION BY lock_key ORDER BY octave) AS below, sum(waits) OVER (PARTITION BY lock_key) AS n
      FROM (
        SELECT lock_key, %[1]s AS octave, CAST(sum(waits) AS BIGINT) AS waits FROM %[2]s
        WHERE %[3]s%[4]s
        GROUP BY ALL
      )
    )
    WHERE 100 * below >= 99 * n AND 100 * (below - waits) < 99 * n
  )
  SELECT lock_key, min(at_most_ns) AS p99_ns FROM (
    SELECT lock_key, at_most_ns, n, before + sum(waits) OVER (PARTITION BY lock_key ORDER BY at_most_ns) AS below
    FROM (
      SELECT lock_key, at_most_ns, n, before, CAST(sum(waits) AS BIGINT) AS waits FROM %[2]s JOIN coarse USING (lock_key)
      WHERE %[1]s = octave%[4]s
      GROUP BY ALL
    )
  )
  WHERE 100 * below >= 99 * n
  GROUP BY lock_key`, octave, rows, condition, f.locksSQL())
}

// atMost is a duration, rounded up as the table durations has it: 7 bits of it count.
func atMost(ns string) string {
	return fmt.Sprintf("((((%[1]s) >> greatest(length(bin(%[1]s)) - 7, 0)) + 1) << greatest(length(bin(%[1]s)) - 7, 0)) - 1", ns)
}
