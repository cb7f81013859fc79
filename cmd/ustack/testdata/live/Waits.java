import java.io.InputStream;
import java.lang.reflect.Constructor;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Waits: threads that wait in chains of calls. A thread has its chain as its name, so the
 * trace has it, too: "Jabbcs" calls a, b, b, c, and then waits for a monitor. With a second
 * argument, threads of classes that are loaded, compiled and dropped all the time wait, too;
 * such a thread has the name of its class.
 *
 * It prints a line for each chain: its name, and the methods called, outermost first.
 */
public class Waits {
	static final Object monitor = new Object();
	static final ReentrantLock lock = new ReentrantLock();
	static volatile long sink;
	static long until;

	static void a(String p, int i) { next(p, i); sink++; }
	static void b(String p, int i) { sink += 2; next(p, i); sink++; }
	static void c(String p, int i) { next(p, i); sink += 3; }

	static void next(String p, int i) {
		switch (p.charAt(i)) {
		case 'a': a(p, i + 1); break;
		case 'b': b(p, i + 1); break;
		case 'c': c(p, i + 1); break;
		default: end(p.charAt(i)); break;
		}
		sink++;
	}

	public static void end(char how) {
		switch (how) {
		case 's':
			synchronized (monitor) { spin(); }
			break;
		case 'l':
			lock.lock();
			try { spin(); } finally { lock.unlock(); }
			break;
		case 'w':
			Object own = new Object();
			synchronized (own) {
				try { own.wait(1); } catch (InterruptedException e) { return; }
			}
			break;
		default:
			LockSupport.parkNanos(200_000);
		}
		sink++;
	}

	static void spin() {
		long end = System.nanoTime() + 30_000;
		while (System.nanoTime() < end) sink++;
	}

	static class Walker implements Runnable {
		final String path;
		Walker(String path) { this.path = path; }

		public void run() {
			for (int n = 0; n < 400 && System.nanoTime() < until; n++) next(path, 1);
		}
	}

	static String truth(String path) {
		StringBuilder b = new StringBuilder(path + " Waits$Walker.run");
		for (int i = 1; i < path.length() - 1; i++) b.append(" Waits.next Waits.").append(path.charAt(i));
		return b.append(" Waits.next Waits.end Waits.spin").toString();
	}

	static void walk(Random random) throws InterruptedException {
		while (System.nanoTime() < until) {
			Thread[] threads = new Thread[6];
			for (int k = 0; k < threads.length; k++) {
				StringBuilder path = new StringBuilder("J");
				for (int n = 1 + random.nextInt(9); n > 0; n--) path.append("abc".charAt(random.nextInt(3)));
				path.append("slwp".charAt(random.nextInt(4)));
				System.out.println(truth(path.toString()));
				threads[k] = new Thread(new Walker(path.toString()), path.toString());
				threads[k].start();
			}
			for (Thread t : threads) t.join();
		}
	}

	/** Loader has one class: Fresh000 by another name, as long. */
	static class Loader extends ClassLoader {
		Class<?> load(byte[] code, String name) {
			byte[] b = code.clone(), old = "Fresh000".getBytes(), now = name.getBytes();
			for (int i = 0; i + old.length <= b.length; i++) {
				int n = 0;
				while (n < old.length && b[i + n] == old[n]) n++;
				if (n == old.length) System.arraycopy(now, 0, b, i, n);
			}
			return defineClass(name, b, 0, b.length);
		}
	}

	static void renew() {
		try (InputStream in = Waits.class.getResourceAsStream("Fresh000.class")) {
			byte[] code = in.readAllBytes();
			for (int n = 1; System.nanoTime() < until; n++) {
				String name = String.format("Fresh%03d", 1 + n % 999);
				Constructor<?> made = new Loader().load(code, name).getDeclaredConstructor();
				made.setAccessible(true);
				Thread t = new Thread((Runnable) made.newInstance(), name);
				t.start();
				t.join();
				if (n % 8 == 0) System.gc();
			}
		} catch (Exception e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	public static void main(String[] args) throws Exception {
		until = System.nanoTime() + Long.parseLong(args[0]) * 1_000_000;
		if (args.length > 1) new Thread(Waits::renew, "renew").start();
		walk(new Random(1));
	}
}

/** Fresh000 is loaded by many names. Its methods are called until they are compiled. */
class Fresh000 implements Runnable {
	static long sum;

	public Fresh000() {}

	public void run() {
		for (int n = 0; n < 40; n++) {
			for (int i = 0; i < 3000; i++) sum += work(i);
			rest(n);
		}
	}

	static long work(int i) { return i * 31L ^ sum; }

	static void rest(int n) {
		sum += work(n);
		Waits.end(n % 2 == 0 ? 'p' : 's');
	}
}
