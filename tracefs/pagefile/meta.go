package pagefile

import (
	"encoding/binary"
	"errors"

	tracebinary "ustack/tracefs/binary"
)

// A chunk of meta is a list of the lengths of a name and of a text, uint32 each, name and
// text. A file that is longer than a chunk goes on in the next one, by the same name.
const metaHead = 8

// appendMeta appends files to a list.
func appendMeta(b []byte, name string, text []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, name...), text...)
}

// metaChunks calls write with lists that have all files, none longer than a chunk.
func metaChunks(files []tracebinary.MetaFile, write func([]byte) error) error {
	var b []byte
	for _, f := range files {
		for text, first := f.Text, true; first || len(text) > 0; first = false {
			n := min(len(text), chunkSize-len(b))
			b = appendMeta(b, f.Name, text[:n])
			text = text[n:]
			if len(b) < chunkSize {
				continue
			}
			if err := write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if len(b) == 0 {
		return nil
	}
	return write(b)
}

// maxMeta bounds the files of a report: kallsyms is the largest.
const maxMeta = 64 << 20

var errMeta = errors.New("no list of files of tracefs")

// parseMeta adds the files of a list to others.
func parseMeta(files []tracebinary.MetaFile, b []byte) ([]tracebinary.MetaFile, error) {
	for len(b) > 0 {
		if len(b) < metaHead {
			return files, errMeta
		}
		name, text := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		b = b[metaHead:]
		if name+text > uint64(len(b)) {
			return files, errMeta
		}
		f := tracebinary.MetaFile{Name: string(b[:name]), Text: b[name : name+text]}
		b = b[name+text:]
		if n := len(files); n > 0 && files[n-1].Name == f.Name {
			files[n-1].Text = append(files[n-1].Text, f.Text...)
			continue
		}
		f.Text = append([]byte(nil), f.Text...)
		files = append(files, f)
	}
	return files, nil
}
