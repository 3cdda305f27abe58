/* Core 5 stores where there is nothing. */

#include "pulp.h"

static void __attribute__((noinline)) write_to(volatile int *place)
{
    *place = 1;
}
static void work(void *argument)
{
    if (core_id() == 5)
        write_to((volatile int *)0x40000000);
    team_barrier();
}
static void all(void *argument) { cluster_fork(8, work, argument); }
int main(void)
{
    cluster_run(all, 0);
    return 0;
}
