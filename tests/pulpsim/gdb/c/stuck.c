/* A barrier that core 3 never comes to. */

#include "pulp.h"
static void __attribute__((noinline)) meet(int core)
{
    if (core != 3)
        team_barrier();
    else
        for (;;)
            ;
}
static void work(void *argument) { meet(core_id()); }
static void all(void *argument) { cluster_fork(8, work, argument); }
int main(void)
{
    cluster_run(all, 0);
    return 0;
}
