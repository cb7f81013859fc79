package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// field is the number of a field, as the message says in front of it.
type field = protowire.Number

// The fields of protos/perfetto/trace that are written. TrackEvent has
// callstack_iid since October 2025 (github.com/google/perfetto/pull/3299); readers
// before that show no stacks.
const (
	tracePacket field = 1 // Trace, trace.proto

	// TracePacket, trace_packet.proto
	packetClockSnapshot   field = 6
	packetTimestamp       field = 8
	packetSequence        field = 10
	packetTrackEvent      field = 11
	packetInterned        field = 12
	packetSequenceFlags   field = 13
	packetDefaults        field = 59
	packetTrackDescriptor field = 60

	// TracePacketDefaults, trace_packet_defaults.proto
	defaultsClock field = 58

	// ClockSnapshot and its Clock, clock_snapshot.proto
	snapshotClock   field = 1
	snapshotPrimary field = 2
	clockID         field = 1
	clockTimestamp  field = 2

	// InternedData, interned_data/interned_data.proto
	internedCategories      field = 1
	internedEventNames      field = 2
	internedAnnotationNames field = 3
	internedFunctions       field = 5
	internedFrames          field = 6
	internedCallstacks      field = 7
	internedBuildIDs        field = 16
	internedPaths           field = 17
	internedSources         field = 18
	internedMappings        field = 19

	// EventCategory, EventName, DebugAnnotationName, track_event/*.proto, and
	// InternedString, profiling/profile_common.proto
	entryIID  field = 1
	entryText field = 2

	// Mapping, Frame and Callstack, profiling/profile_common.proto
	mappingIID     field = 1
	mappingBuildID field = 2
	mappingPath    field = 7
	frameIID       field = 1
	frameFunction  field = 2
	frameMapping   field = 3
	frameRelPC     field = 4
	frameSource    field = 5
	frameLine      field = 6
	callstackIID   field = 1
	callstackFrame field = 2

	// TrackDescriptor, track_event/track_descriptor.proto
	trackUUID    field = 1
	trackName    field = 2
	trackProcess field = 3
	trackThread  field = 4
	trackParent  field = 5
	trackMerge   field = 15

	// ProcessDescriptor, ThreadDescriptor, track_event/*_descriptor.proto
	processPID  field = 1
	processName field = 6
	threadPID   field = 1
	threadTID   field = 2
	threadName  field = 5

	// TrackEvent, track_event/track_event.proto
	eventCategory   field = 3
	eventAnnotation field = 4
	eventType       field = 9
	eventName       field = 10
	eventTrack      field = 11
	eventFlow       field = 47
	eventFlowEnd    field = 48
	eventCallstack  field = 56

	// DebugAnnotation, track_event/debug_annotation.proto
	annotationName    field = 1
	annotationBool    field = 2
	annotationInt     field = 4
	annotationText    field = 6
	annotationPointer field = 7
)

// Values of their enums.
const (
	incrementalStateCleared = 1 // TracePacket.SequenceFlags
	needsIncrementalState   = 2
	mergeNone               = 2 // TrackDescriptor.SiblingMergeBehavior
)

// clocks are the trace clocks of the kernel (trace_clocks in kernel/trace/trace.c)
// that are BuiltinClocks, common/builtin_clock.proto. The others count another
// time.
var clocks = map[string]uint64{"mono": 3, "mono_raw": 5, "boot": 6}
