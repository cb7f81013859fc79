#!/bin/sh -e
# Makes the stacks of testdata/tiny: TINY programs of self.c and what they write.
cd "$(dirname "$0")"
mkdir -p tiny
make() { # NAME COMPILER RUN FLAGS...
	name=$1 compiler=$2 run=$3
	shift 3
	$compiler -O2 -DTINY -nostdlib -static -ffreestanding -fno-stack-protector -Wl,--build-id -Wl,-z,noseparate-code \
		-Wl,-z,max-page-size=4096 -w "$@" -o tiny/$name self.c
	mkdir -p /tmp/tiny
	cp tiny/$name /tmp/tiny/$name
	$run /tmp/tiny/$name | gzip -9n >tiny/$name.stacks.gz
	${compiler%gcc}objcopy $REMOVE tiny/$name
	gzip -9nf tiny/$name
}
REMOVE=-S
make amd64 gcc env -fomit-frame-pointer
make arm64-pac aarch64-linux-gnu-gcc "qemu-aarch64-static -cpu max" -march=armv8.5-a -mbranch-protection=pac-ret
REMOVE="-S -R .eh_frame"
make amd64-fp gcc env -fno-omit-frame-pointer -fno-asynchronous-unwind-tables
make arm64-fp aarch64-linux-gnu-gcc "qemu-aarch64-static -cpu max" -march=armv8.5-a -mbranch-protection=pac-ret
make amd64-sframe gcc env -fomit-frame-pointer -Wa,--gsframe
make arm64-sframe aarch64-linux-gnu-gcc "qemu-aarch64-static -cpu max" -Wa,--gsframe -fomit-frame-pointer
REMOVE="-R .eh_frame -R .debug_info -R .debug_str -R .debug_line -R .debug_loclists -R .debug_loc -N ."
make amd64-debug gcc env -gdwarf-4 -gz -fno-asynchronous-unwind-tables
make amd64-debug-plain gcc env -gdwarf-5 -gz=none -fno-asynchronous-unwind-tables
