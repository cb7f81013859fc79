/* A library of the live tests: it calls back. PAD keeps its code at another
 * offset than that of its siblings. */
#ifndef PAD
#define PAD 1
#endif

volatile int plugin_sink;

__attribute__((noinline)) void plugin_padding(void)
{
	for (int i = 0; i < PAD; i++)
		plugin_sink += i * PAD;
}

__attribute__((noinline)) void plugin_run(void (*call)(void))
{
	call();
	plugin_sink++;
}
