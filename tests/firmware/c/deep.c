/* A recursion that needs more stack than a core has. */

#include "pulp.h"

#ifndef FRAME
#define FRAME 8
#endif

static int deep(volatile int *outer)
{
    volatile int here[FRAME / 4];
    here[0] = *outer - 1;
    return here[0] > 0 ? deep(here) + here[0] : 0;
}

static void dive(void *argument)
{
    volatile int depth = core_id() == DIVER ? (int)argument : 1;
    deep(&depth);
}

static void work(void *argument) { cluster_fork(cluster_cores(), dive, argument); }

int main(void)
{
    cluster_run(work, (void *)DEPTH);
    console_text("done\n");
    return 0;
}
