# Runs in gdb: stops a program at random points and writes, one JSON object a
# line, what gdb knows of each thread's stack. The environment says where to, how
# often to stop, and how many bytes of a stack to copy.
import base64, json, os, random, subprocess
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

def one(out, inferior, thread, text):
    thread.switch()
    f = gdb.newest_frame()
    regs = [int(f.read_register(r)) & MASK for r in REGS]
    found, reason, interrupted = frames()
    copy, limit = stack(inferior, regs[7], text)
    more, _ = stack(inferior, interrupted, text) if interrupted else ("", 0)
    out.write(json.dumps({"at": interrupted, "more": more, "regs": regs, "frames": found, "reason": reason, "stack": copy, "limit": limit}) + "\n")

def main():
    for c in ["set pagination off", "set confirm off", "set debuginfod enabled off", "set backtrace past-main on", "set backtrace past-entry on",
              "set backtrace limit 400", "handle SIGUSR2 stop nopass print", "handle SIGALRM nostop pass noprint", "handle SIGSEGV nostop pass noprint",
              "handle SIG33 nostop pass noprint", "handle SIGPIPE nostop pass noprint", "set disable-randomization off"]:
        try:
            gdb.execute(c, to_string=True)
        except gdb.error:
            pass
    gdb.execute("starti", to_string=True)
    inferior = gdb.selected_inferior()
    pid = inferior.pid
    last = None
    with open(os.environ["STACKS_OUT"], "w") as out:
        for n in range(int(os.environ["STACKS_STOPS"])):
            wait = float(os.environ.get("STACKS_FIRST", "0.3")) if n == 0 else random.uniform(0.001, 0.03)
            # A thread of Python does not run while gdb waits.
            t = subprocess.Popen(["sh", "-c", "sleep %f; kill -USR2 %d" % (wait, pid)])
            gdb.execute("continue", to_string=True)
            t.wait()
            if not inferior.is_valid() or inferior.pid == 0:
                break
            text = maps(pid)
            if text != last:
                out.write(json.dumps({"maps": text, "vdso": vdso(inferior, text)}) + "\n")
                last = text
            for thread in inferior.threads():
                one(out, inferior, thread, text)
            out.flush()
    gdb.execute("kill", to_string=True)

main()
