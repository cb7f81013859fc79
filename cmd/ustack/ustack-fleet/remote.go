package main

import (
	"fmt"
	"io"
	"strings"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// remoteTable is a table of ClickHouse. Its first column is a UInt64: of samples and devices
// the batch with which they came, else the rank of the row among those with the same key.
//
// Invariant: a row of devices with a batch is there only if all samples of its report with
// that batch are. Samples without such a row are those of a push that did not end, and do not
// count.
type remoteTable struct {
	name, first string
	columns     []string // "name Type"
	engine      string   // with its keys
	shard       string   // the number by which rows go to shards
}

// remoteTables returns the tables of ClickHouse.
//
// Times are nanoseconds in an Int64 and texts are String: DateTime64 and LowCardinality are
// newer than servers of 2018. Samples are in parts by the month in which they were pushed, so
// that old ones can be dropped.
func remoteTables() []remoteTable {
	return []remoteTable{
		{tableDevices, "batch", definitions(deviceColumns()), "ReplacingMergeTree(batch) ORDER BY report", "report"},
		{tableStacks, "rank", definitions(stackColumns()), "ReplacingMergeTree(rank) ORDER BY stack", "stack"},
		{tableFrames, "rank", definitions(frameColumns()), "ReplacingMergeTree(rank) ORDER BY (stack, depth)", "stack"},
		{tableFunctions, "rank", definitions(functionColumns()), "ReplacingMergeTree(rank) ORDER BY (build_id, offset, ran)", "cityHash64(build_id)"},
		{
			tableSamples, "batch", append(definitions(sampleColumns()), "pushed Date DEFAULT today()"),
			"MergeTree PARTITION BY toYYYYMM(pushed) ORDER BY (event, ifNull(lock_key, 0), report)", "report",
		},
	}
}

// definitions returns the columns as they are defined.
func definitions[T any](columns []clickhouse.Column[T]) (list []string) {
	for _, c := range columns {
		list = append(list, c.Name+" "+c.Type)
	}
	return list
}

// ddl returns the statements that create the tables. Distributed ones have the plain names,
// so that push and fleet do not differ.
func ddl(f *fleet.Export) (statements []string) {
	for _, t := range remoteTables() {
		name := t.name
		if f.DDL == fleet.ClickHouseDistributed {
			name += "_local"
		}
		statements = append(statements, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n  %s UInt64,\n  %s\n) ENGINE = %s",
			name, t.first, strings.Join(t.columns, ",\n  "), t.engine))
		if f.DDL == fleet.ClickHouseDistributed {
			statements = append(statements, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s AS %s\n  ENGINE = Distributed(%s, %s, %s, %s)", t.name, name, f.Cluster, f.Database, name, t.shard))
		}
	}
	return statements
}

// printDDL prints the statements, for clickhouse-client --multiquery.
func printDDL(f *fleet.Export, out io.Writer) error {
	_, err := io.WriteString(out, strings.Join(ddl(f), ";\n\n")+";\n")
	return err
}

// insertInto returns the statement that inserts rows of a table.
func insertInto[T any](table, first string, columns []clickhouse.Column[T]) string {
	names := []string{first}
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ")"
}
