package perfettotest

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// schema is what of Perfetto's messages is read: a message, and below it number,
// name and type of its fields, "*" for repeated ones. It is written down from
// protos/perfetto/trace/**.proto by itself: a wrong number in package perfetto is
// an unknown field here.
const schema = `
Trace
 1 packet *TracePacket
TracePacket
 6 clock_snapshot ClockSnapshot
 8 timestamp uint64
 58 timestamp_clock_id uint32
 10 trusted_packet_sequence_id uint32
 11 track_event TrackEvent
 12 interned_data InternedData
 13 sequence_flags uint32
 59 trace_packet_defaults TracePacketDefaults
 60 track_descriptor TrackDescriptor
TracePacketDefaults
 58 timestamp_clock_id uint32
ClockSnapshot
 1 clocks *Clock
 2 primary_trace_clock uint32
Clock
 1 clock_id uint32
 2 timestamp uint64
InternedData
 1 event_categories *InternedName
 2 event_names *InternedName
 3 debug_annotation_names *InternedName
 5 function_names *InternedString
 6 frames *Frame
 7 callstacks *Callstack
 16 build_ids *InternedString
 17 mapping_paths *InternedString
 18 source_paths *InternedString
 19 mappings *Mapping
InternedName
 1 iid uint64
 2 name string
InternedString
 1 iid uint64
 2 str bytes
Mapping
 1 iid uint64
 2 build_id uint64
 3 start_offset uint64
 4 start uint64
 5 end uint64
 6 load_bias uint64
 7 path_string_ids *uint64
 8 exact_offset uint64
Frame
 1 iid uint64
 2 function_name_id uint64
 3 mapping_id uint64
 4 rel_pc uint64
 5 source_path_iid uint64
 6 line_number uint32
Callstack
 1 iid uint64
 2 frame_ids *uint64
TrackDescriptor
 1 uuid uint64
 2 name string
 3 process ProcessDescriptor
 4 thread ThreadDescriptor
 5 parent_uuid uint64
 15 sibling_merge_behavior uint32
ProcessDescriptor
 1 pid int32
 6 process_name string
ThreadDescriptor
 1 pid int32
 2 tid int64
 5 thread_name string
TrackEvent
 3 category_iids *uint64
 4 debug_annotations *DebugAnnotation
 9 type uint32
 10 name_iid uint64
 11 track_uuid uint64
 47 flow_ids *fixed64
 48 terminating_flow_ids *fixed64
 56 callstack_iid uint64
DebugAnnotation
 1 name_iid uint64
 2 bool_value bool
 4 int_value int64
 6 string_value string
 7 pointer_value uint64
`

var scalars = map[string]descriptorpb.FieldDescriptorProto_Type{
	"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"fixed64": descriptorpb.FieldDescriptorProto_TYPE_FIXED64, "bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// traceType returns the type of a Trace.
func traceType() (protoreflect.MessageDescriptor, error) {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("trace.proto"), Package: proto.String("perfetto.protos"), Syntax: proto.String("proto2")}
	var message *descriptorpb.DescriptorProto
	for line := range strings.Lines(strings.TrimSpace(schema)) {
		part := strings.Fields(line)
		if len(part) == 1 {
			message = &descriptorpb.DescriptorProto{Name: proto.String(part[0])}
			file.MessageType = append(file.MessageType, message)
			continue
		}
		number, err := strconv.Atoi(part[0])
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		f := &descriptorpb.FieldDescriptorProto{Name: proto.String(part[1]), Number: proto.Int32(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		kind, many := strings.CutPrefix(part[2], "*")
		if many {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if scalar, ok := scalars[kind]; ok {
			f.Type = scalar.Enum()
		} else {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".perfetto.protos."+kind)
		}
		message.Field = append(message.Field, f)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, fmt.Errorf("making the types: %w", err)
	}
	return d.Messages().ByName("Trace"), nil
}
