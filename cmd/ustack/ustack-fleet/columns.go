package main

import "ustack/cmd/ustack/ustack-fleet/clickhouse"

// column returns a column of ClickHouse whose values are a field of the row.
func column[T, V any](name, kind string, value func([]byte, V) []byte, field func(*T) V) clickhouse.Column[T] {
	return clickhouse.Column[T]{Name: name, Type: kind, Append: func(b []byte, row *T) []byte { return value(b, field(row)) }}
}

// optional returns a column that is NULL where the field is nil.
func optional[T, V any](name, kind string, value func([]byte, V) []byte, field func(*T) *V) clickhouse.Column[T] {
	return clickhouse.Column[T]{
		Name: name, Type: "Nullable(" + kind + ")",
		Append: func(b []byte, row *T) []byte { return clickhouse.Optional(b, field(row), value) },
	}
}

// text returns a column of type String, optText one that can be NULL; key, number, and
// optNumber do so for UInt64 and Int64.
func text[T any](name string, field func(*T) string) clickhouse.Column[T] {
	return column(name, "String", clickhouse.AppendString, field)
}

func optText[T any](name string, field func(*T) *string) clickhouse.Column[T] {
	return optional(name, "String", clickhouse.AppendString, field)
}

func key[T any](name string, field func(*T) uint64) clickhouse.Column[T] {
	return column(name, "UInt64", clickhouse.AppendUint64, field)
}

func optKey[T any](name string, field func(*T) *uint64) clickhouse.Column[T] {
	return optional(name, "UInt64", clickhouse.AppendUint64, field)
}

func number[T any](name string, field func(*T) int64) clickhouse.Column[T] {
	return column(name, "Int64", clickhouse.AppendInt64, field)
}

func optNumber[T any](name string, field func(*T) *int64) clickhouse.Column[T] {
	return optional(name, "Int64", clickhouse.AppendInt64, field)
}

func deviceColumns() []clickhouse.Column[deviceRow] {
	return []clickhouse.Column[deviceRow]{
		key("report", func(d *deviceRow) uint64 { return d.Report }),
		text("device", func(d *deviceRow) string { return d.Device }),
		text("name", func(d *deviceRow) string { return d.Name }),
		key("recording", func(d *deviceRow) uint64 { return d.Recording }),
		text("os", func(d *deviceRow) string { return d.OS }),
		text("kernel", func(d *deviceRow) string { return d.Kernel }),
		text("arch", func(d *deviceRow) string { return d.Arch }),
		text("ustack", func(d *deviceRow) string { return d.Ustack }),
		optNumber("begun", func(d *deviceRow) *int64 { return d.Begun }),
		number("duration_ns", func(d *deviceRow) int64 { return d.Duration }),
		number("events", func(d *deviceRow) int64 { return d.Events }),
		number("lost", func(d *deviceRow) int64 { return d.Lost }),
		column("lost_more", "UInt8", clickhouse.AppendBool, func(d *deviceRow) bool { return d.LostMore }),
		number("waits", func(d *deviceRow) int64 { return d.Waits }),
		number("waited_ns", func(d *deviceRow) int64 { return d.WaitedNS }),
		number("refused", func(d *deviceRow) int64 { return d.Refused }),
		number("duplicates", func(d *deviceRow) int64 { return d.Duplicates }),
	}
}

func stackColumns() []clickhouse.Column[stackRow] {
	return []clickhouse.Column[stackRow]{
		key("stack", func(s *stackRow) uint64 { return s.Stack }),
		column("frames", "Int32", clickhouse.AppendInt32, func(s *stackRow) int32 { return s.Frames }),
		column("cut", "UInt8", clickhouse.AppendBool, func(s *stackRow) bool { return s.Cut }),
		text("end", func(s *stackRow) string { return s.End }),
	}
}

func frameColumns() []clickhouse.Column[frameRow] {
	return []clickhouse.Column[frameRow]{
		key("stack", func(f *frameRow) uint64 { return f.Stack }),
		column("depth", "Int32", clickhouse.AppendInt32, func(f *frameRow) int32 { return f.Depth }),
		optText("build_id", func(f *frameRow) *string { return f.BuildID }),
		optText("path", func(f *frameRow) *string { return f.Path }),
		optNumber("offset", func(f *frameRow) *int64 { return f.Offset }),
		column("ran", "UInt8", clickhouse.AppendBool, func(f *frameRow) bool { return f.Ran }),
		optText("reason", func(f *frameRow) *string { return f.Reason }),
	}
}

func sampleColumns() []clickhouse.Column[sampleRow] {
	return []clickhouse.Column[sampleRow]{
		key("report", func(s *sampleRow) uint64 { return s.Report }),
		text("device", func(s *sampleRow) string { return s.Device }),
		optNumber("time", func(s *sampleRow) *int64 { return s.Time }),
		text("event", func(s *sampleRow) string { return s.Event }),
		optional("tid", "Int32", clickhouse.AppendInt32, func(s *sampleRow) *int32 { return s.TID }),
		optKey("stack", func(s *sampleRow) *uint64 { return s.Stack }),
		optText("trust", func(s *sampleRow) *string { return s.Trust }),
		optNumber("ns", func(s *sampleRow) *int64 { return s.NS }),
		optNumber("low_ns", func(s *sampleRow) *int64 { return s.LowNS }),
		optNumber("high_ns", func(s *sampleRow) *int64 { return s.HighNS }),
		optText("result", func(s *sampleRow) *string { return s.Result }),
		optKey("lock_key", func(s *sampleRow) *uint64 { return s.LockKey }),
		optional("is_lock", "UInt8", clickhouse.AppendBool, func(s *sampleRow) *bool { return s.IsLock }),
		optText("lock_kind", func(s *sampleRow) *string { return s.LockKind }),
		optText("lock_name", func(s *sampleRow) *string { return s.LockName }),
		optText("lock_build_id", func(s *sampleRow) *string { return s.LockBuildID }),
		optText("site_path", func(s *sampleRow) *string { return s.SitePath }),
		optText("site_build_id", func(s *sampleRow) *string { return s.SiteBuildID }),
		optNumber("site_offset", func(s *sampleRow) *int64 { return s.SiteOffset }),
		optional("site_ran", "UInt8", clickhouse.AppendBool, func(s *sampleRow) *bool { return s.SiteRan }),
		optKey("owner_stack", func(s *sampleRow) *uint64 { return s.OwnerStack }),
		optional("owner_sure", "UInt8", clickhouse.AppendBool, func(s *sampleRow) *bool { return s.OwnerSure }),
		column("weight", "Float64", clickhouse.AppendFloat64, func(s *sampleRow) float64 { return s.Weight }),
	}
}

func functionColumns() []clickhouse.Column[functionRow] {
	return []clickhouse.Column[functionRow]{
		text("build_id", func(f *functionRow) string { return f.BuildID }),
		number("offset", func(f *functionRow) int64 { return f.Offset }),
		column("ran", "UInt8", clickhouse.AppendBool, func(f *functionRow) bool { return f.Ran }),
		optText("function", func(f *functionRow) *string { return f.Function }),
		optText("inlined", func(f *functionRow) *string { return f.Inlined }),
		optText("source", func(f *functionRow) *string { return f.Source }),
		optNumber("line", func(f *functionRow) *int64 { return f.Line }),
		optText("reason", func(f *functionRow) *string { return f.Reason }),
	}
}
