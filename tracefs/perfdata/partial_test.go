package perfdata

import (
	"bytes"
	"strings"
	"testing"

	"ustack/tracefs/perfdata/perfdatatest"
)

// TestFollowed: perf's arguments say whose mappings a file has; those of the recorded program, and
// values of options, are none of them.
func TestFollowed(t *testing.T) {
	for args, want := range map[string]Followed{
		"perf record -g -- ./a -t 3":                    FollowedWhole,
		"perf record -g ./a -C 3 --tid 5":               FollowedWhole,
		"/usr/bin/perf record -a sleep 1":               FollowedWhole,
		"perf record -p 7 -o -t":                        FollowedWhole,
		"perf record -e -C ./a":                         FollowedWhole,
		"perf record --event -C -- ./a":                 FollowedWhole,
		"perf record -t 7":                              FollowedThreads,
		"perf record -gt 7":                             FollowedThreads,
		"perf record -t7":                               FollowedThreads,
		"perf record -e sched:sched_switch --tid=7":     FollowedThreads,
		"perf record -F 99 --tid 7 -g":                  FollowedThreads,
		"perf record -i ./a":                            FollowedThreads,
		"perf record --call-graph fp --no-inherit ./a":  FollowedThreads,
		"perf record --per-thread -- ./a":               FollowedThreads,
		"perf record -a --no-inherit -- ./a":            FollowedWhole,
		"perf record -q -C 0 -e x:y -- ./a":             FollowedPlaces,
		"perf record --cpu=0-3":                         FollowedPlaces,
		"perf record --cpu 0 -a":                        FollowedPlaces,
		"perf --debug verbose=1 record -C0 -- sleep 1":  FollowedPlaces,
		"perf record -D 100 -m 64 -c 1 -k mono -C 1":    FollowedPlaces,
		"perf record --clockid mono --delay 5 --cpu 1 ": FollowedPlaces,
		"perf record --switch-output-event x:y -t 10":   FollowedThreads,
		"perf record --per-t ./a":                       FollowedThreads,
		"perf record --cp 0 ./a":                        FollowedPlaces,
		"perf record --filt x --tid 7":                  FollowedThreads,
		"perf record --newer ./a -t 7":                  FollowedThreads, // or ./a is the value
		"perf record --newer=3 ./a -t 7":                FollowedWhole,
		"perf record --no-newer ./a -t 7":               FollowedWhole,
		"perf record --quiet ./a -t 7":                  FollowedWhole,
		"perf record -i -Iax,bx ./a":                    FollowedThreads,
		"perf record -i --newer ./a -a":                 FollowedThreads,
		"perf record -i -a --newer ./a":                 FollowedWhole,
		"perf record --switch-output -a":                FollowedLater,
		"perf record --switch-output=2s ./a":            FollowedLater,
		"perf record --switch-output-event x:y ./a":     FollowedLater,
		"perf record --tail-synth ./a":                  FollowedLater,
		"perf record -t 7 --switch-output":              FollowedThreads,
		"":                                              FollowedWhole,
	} {
		for _, online := range []uint32{0, 2, 3} {
			want := want
			if want == FollowedPlaces && online == 2 {
				want = FollowedWhole // it has two numbers: this perf follows processes on all CPUs
			}
			if got := followed(t, flagInherit, online, args); got != want {
				t.Errorf("%s, %d CPUs: %d, want %d", args, online, got, want)
			}
		}
	}
	for _, args := range []string{"perf record -a -e cycles -G web", "perf record -a -e cycles -aGweb", "perf record -e x:y -a --cgroup web -- ./a", "perf record -e x:y -a --cg=web",
		"perf record --control fifo:x ./a"} {
		for _, online := range []uint32{0, 2, 3} { // on all CPUs, but not in all groups or all the time
			if got := followed(t, flagInherit, online, args); got != FollowedPlaces {
				t.Errorf("%s, %d CPUs: %d, want %d", args, online, got, FollowedPlaces)
			}
		}
	}
	if got := followed(t, flagInherit|flagBackward, 2, "perf record -a"); got != FollowedPlaces {
		t.Errorf("rings are overwritten: %d", got)
	}
	unended := followedFile(flagInherit, 2, "perf record -a")
	clear(unended[48:56])  // the size of the data
	clear(unended[72:104]) // and the features, as perf leaves them until it ends
	cut := followedFile(flagInherit, 2, "perf record -a")
	for what, data := range map[string][]byte{"perf was killed": unended, "the file is cut": cut[:len(cut)-40]} {
		if got := followedOf(t, data); got != FollowedPlaces {
			t.Errorf("%s: %d, want %d", what, got, FollowedPlaces)
		}
	}
	if got := followed(t, flagInherit, 2, "perf record -a --all-cgroups -- ./a -G web"); got != FollowedWhole {
		t.Errorf("of all groups: %d", got)
	}
	for args, want := range map[string]Followed{"": FollowedThreads, "perf record ./a": FollowedThreads, "perf record -a": FollowedWhole} {
		if got := followed(t, 0, 2, args); got != want {
			t.Errorf("%s, and the event is not inherited: %d, want %d", args, got, want)
		}
	}
}

// followed makes a file with some arguments, none for "", and an event with two numbers, and returns whose
// mappings it has.
func followed(t *testing.T, flags uint64, online uint32, args string) Followed {
	t.Helper()
	return followedOf(t, followedFile(flags, online, args))
}

// followedFile makes the file for followed.
func followedFile(flags uint64, online uint32, args string) []byte {
	file := perfdatatest.File{Attrs: []perfdatatest.Attr{{Type: 1, SampleType: 1, Flags: flagMmap | flagSampleIDAll | flags, IDs: []uint64{1, 2}}}, Features: make(map[int][]byte)}
	file.Add(perfdatatest.Round, 0) // without records, a file has no features
	if list := strings.Fields(args); len(list) > 0 {
		values := []any{uint32(len(list))}
		for _, arg := range list {
			values = append(values, uint32(len(arg)+1), arg+"\x00")
		}
		file.Features[featureCommandLine] = file.Bytes(values...)
	}
	file.Features[featureCPUs] = file.Bytes(uint32(9), online)
	return file.Write()
}

func followedOf(t *testing.T, data []byte) Followed {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Followed()
}
