/* A library whose code runs wherever it lies. PAD tells it from its siblings. */
#ifndef PAD
#define PAD 1
#endif

__attribute__((noinline)) long remap_run(long (*call)(long), long value)
{
	long result = call(value);
	for (volatile int i = 0; i < PAD; i++)
		result += i;
	return result;
}
