# Runs in gdb: stops a program at random points and writes, one JSON object a
# line, what gdb knows of each thread's stack, but for threads that have not moved
# since the stop before. The environment says where to, how often to stop, and how many
# bytes of a stack to copy. With STACKS_PID it attaches to that process, and also ends
# after STACKS_COUNT stacks. With STACKS_STEPS threads that are not in a system call are
# then moved on by so many instructions, alone, with a stack after each.
import base64, json, os, random, subprocess, sys
import gdb

REGS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"]
MASK = (1 << 64) - 1

def maps(pid):
    with open("/proc/%d/maps" % pid) as f:
        return f.read()

def vdso(inferior, text):
    for line in text.splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            return base64.b64encode(bytes(inferior.read_memory(start, end - start))).decode()
    return ""

def frames():
    out, f, interrupted = [], gdb.newest_frame(), 0
    while f is not None and len(out) < 400:
        if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME): # those have no frame
            out.append([f.pc(), f.name() or "", f.type() == gdb.SIGTRAMP_FRAME])
        older = f.older()
        if f.type() == gdb.SIGTRAMP_FRAME and older is not None:
            interrupted = int(older.read_register("rsp")) & MASK
        reason = gdb.frame_stop_reason_string(f.unwind_stop_reason()) if older is None else ""
        f = older
    return out, reason, interrupted

def stack(inferior, sp, text):
    for line in text.splitlines():
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        if start <= sp < end:
            n = min(end - sp, int(os.environ["STACKS_COPY"]))
            return base64.b64encode(bytes(inferior.read_memory(sp, n))).decode(), end
    return "", 0

def one(out, inferior, thread, text, before, step=False):
    thread.switch()
    f = gdb.newest_frame()
    regs = [int(f.read_register(r)) & MASK for r in REGS]
    copy, limit = stack(inferior, regs[7], text)
    if before.get(thread.ptid) == (regs, copy):
        return 0
    before[thread.ptid] = regs, copy
    found, reason, interrupted = frames()
    more, _ = stack(inferior, interrupted, text) if interrupted else ("", 0)
    out.write(json.dumps({"at": interrupted, "more": more, "regs": regs, "frames": found, "reason": reason, "stack": copy, "limit": limit, "step": step}) + "\n")
    return 1

def steps(out, inferior, thread, text, before):
    thread.switch()
    if int(gdb.newest_frame().read_register("orig_rax")) & MASK != MASK:
        return
    for _ in range(STEPS):
        if bytes(inferior.read_memory(gdb.newest_frame().pc(), 2)) == b"\x0f\x05": # syscall, which can wait for another thread
            return
        gdb.execute("stepi", to_string=True)
        if not thread.is_valid() or gdb.selected_thread() != thread:
            return
        one(out, inferior, thread, text, before, True)

def settings(signals):
    for c in ["set pagination off", "set confirm off", "set debuginfod enabled off", "set backtrace past-main on", "set backtrace past-entry on",
              "set backtrace limit 400", "set disable-randomization off"] + ["handle " + s for s in signals]:
        try:
            gdb.execute(c, to_string=True)
        except gdb.error:
            pass

def begin():
    """Starts the program or attaches to it. Returns the signal that stops it."""
    pid = os.environ.get("STACKS_PID")
    if pid:
        # A program cannot block SIGSTOP, and the kernel never gets this one.
        settings(["all nostop pass noprint", "SIGSTOP stop nopass print"])
        gdb.execute("attach " + pid, to_string=True)
        return "STOP"
    settings(["SIGUSR2 stop nopass print"] + [s + " nostop pass noprint" for s in ("SIGALRM", "SIGSEGV", "SIG33", "SIGPIPE")])
    gdb.execute("starti", to_string=True)
    return "USR2"

def main():
    signal = begin()
    inferior = gdb.selected_inferior()
    pid = inferior.pid
    last, before, count = None, {}, 0
    with open(os.environ["STACKS_OUT"], "w") as out:
        for n in range(int(os.environ["STACKS_STOPS"])):
            wait = float(os.environ.get("STACKS_FIRST", "0.3")) if n == 0 else random.uniform(0.001, 0.03)
            # A thread of Python does not run while gdb waits.
            t = subprocess.Popen(["sh", "-c", "sleep %f; kill -%s %d" % (wait, signal, pid)])
            gdb.execute("continue", to_string=True)
            t.wait()
            if not inferior.is_valid() or inferior.pid == 0:
                break
            text = maps(pid)
            if text != last:
                out.write(json.dumps({"maps": text, "vdso": vdso(inferior, text)}) + "\n")
                last = text
            for thread in inferior.threads():
                count += one(out, inferior, thread, text, before)
            if STEPS:
                gdb.execute("set scheduler-locking on")
                for thread in inferior.threads():
                    steps(out, inferior, thread, text, before)
                gdb.execute("set scheduler-locking off")
            out.flush()
            if count >= int(os.environ.get("STACKS_COUNT", sys.maxsize)):
                break
    if inferior.is_valid() and inferior.pid != 0:
        gdb.execute("detach" if signal == "STOP" else "kill", to_string=True)

STEPS = int(os.environ.get("STACKS_STEPS", "0"))

main()
