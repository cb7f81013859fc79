/* Two threads that call futex; before that it writes what it has mapped to the
   file of its first argument, and its name to that of the second. Then it
   executes the rest of the arguments. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/futex.h>
static int word;
typedef void fn(void);
__attribute__((noinline)) static void wake(void) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) static void *some(void *x) { for (int i = 0; i < 3; i++) { wake(); usleep(1000); } __asm__ volatile("" ::: "memory"); return x; }
static void copy(const char *to) {
  char b[1 << 16]; ssize_t n; int i = open("/proc/self/maps", O_RDONLY), o = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  while ((n = read(i, b, sizeof b)) > 0) write(o, b, n);
  close(i); close(o);
}
int main(int argc, char **argv) {
  pthread_t p; pthread_create(&p, 0, some, 0); some(0); pthread_join(p, 0);
  if (argc > 1) copy(argv[1]);
  if (argc > 2) { FILE *f = fopen(argv[2], "a"); fprintf(f, "%d mapped\n%d mapped\n", getpid(), getpid() + 1); fclose(f); }
  if (argc > 3) execv(argv[3], argv + 3);
  return 0;
}
