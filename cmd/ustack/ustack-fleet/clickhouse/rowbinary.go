package clickhouse

import (
	"encoding/binary"
	"math"
)

// Column is a column of a table: its name, its type, and how a row is written in RowBinary.
type Column[T any] struct {
	Name, Type string
	Append     func(b []byte, row *T) []byte
}

// AppendUint64 appends a UInt64.
func AppendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendInt64 appends an Int64.
func AppendInt64(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }

// AppendInt32 appends an Int32.
func AppendInt32(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }

// AppendBool appends a UInt8 that is 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendFloat64 appends a Float64.
func AppendFloat64(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// AppendString appends a String.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Optional appends a Nullable by the function for its type.
func Optional[V any](b []byte, v *V, value func([]byte, V) []byte) []byte {
	if v == nil {
		return append(b, 1)
	}
	return value(append(b, 0), *v)
}

// Rows are rows of one table in RowBinary. The first column is a UInt64 that is set when the
// rows are sent.
//
// Invariant: starts has the place of each row in body.
type Rows[T any] struct {
	columns []Column[T]
	body    []byte
	starts  []int
}

// NewRows returns no rows of a table.
func NewRows[T any](columns []Column[T]) *Rows[T] { return &Rows[T]{columns: columns} }

// Add adds a row.
func (r *Rows[T]) Add(row *T) {
	r.starts = append(r.starts, len(r.body))
	r.body = AppendUint64(r.body, 0)
	for i := range r.columns {
		r.body = r.columns[i].Append(r.body, row)
	}
}

// Len returns how many rows there are, Size how many bytes they have.
func (r *Rows[T]) Len() int { return len(r.starts) }

// Size returns how many bytes the rows have.
func (r *Rows[T]) Size() int { return len(r.body) }

// Stamped returns the rows with the first column set.
func (r *Rows[T]) Stamped(first uint64) []byte {
	for _, at := range r.starts {
		binary.LittleEndian.PutUint64(r.body[at:], first)
	}
	return r.body
}

// Parts returns the rows with the first column set, in n parts of about as many rows, or in one;
// none if there are no rows.
func (r *Rows[T]) Parts(first uint64, n int) (parts [][]byte) {
	body := r.Stamped(first)
	n = max(1, min(n, len(r.starts)))
	for i := range n {
		from, to := len(r.starts)*i/n, len(r.starts)*(i+1)/n
		end := len(body)
		if to < len(r.starts) {
			end = r.starts[to]
		}
		if from < to {
			parts = append(parts, body[r.starts[from]:end])
		}
	}
	return parts
}

// Clear removes all rows. What Stamped and Parts returned is no longer valid.
func (r *Rows[T]) Clear() { r.body, r.starts = r.body[:0], r.starts[:0] }
