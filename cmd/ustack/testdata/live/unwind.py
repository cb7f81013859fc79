# For gdb: stops a program at each futex call and prints the stack as call frame
# information has it, innermost frame first, a line each:
#
#	__lll_lock_wait+43 take_direct+17 round_of_all+14 …
import gdb

for setting in ("pagination off", "debuginfod enabled off", "print thread-events off", "confirm off"):
    gdb.execute("set " + setting)
gdb.execute("catch syscall futex", to_string=True)


def place(pc):
    words = gdb.execute("info symbol %d" % pc, to_string=True).split()
    if len(words) > 2 and words[1] == "+":
        return words[0] + "+" + words[2]
    return words[0] + "+0"


gdb.execute("run > /dev/null", to_string=True)
seen = {}
with open("unwound.txt", "w") as out:
    while any(t.is_valid() for t in gdb.selected_inferior().threads()):
        stack, f = [], gdb.newest_frame()
        while f is not None and len(stack) < 64:
            if f.type() != gdb.INLINE_FRAME and f.type() != gdb.TAILCALL_FRAME:
                stack.append(f.pc())
            f = f.older()
        key = tuple(stack)
        if key not in seen:
            seen[key] = " ".join(place(pc) for pc in stack)
            out.write(seen[key] + "\n")
        gdb.execute("continue", to_string=True)
