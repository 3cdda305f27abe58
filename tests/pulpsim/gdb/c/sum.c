/* Eight cores weigh values, each its own, and core 0 adds up what they have found. */

#include "pulp.h"

enum { SIZE = 16 };
static int values[8][SIZE] PULP_L1;
static int totals[8] PULP_L1;
int grand;

static int __attribute__((noinline)) weigh(int value, int weight)
{
    int product = value * weight;
    return product + 1;
}

static int __attribute__((noinline)) add_up(int core)
{
    int sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += weigh(values[core][i], core + 1);
    totals[core] = sum;
    return sum;
}

static void work(void *argument)
{
    int core = core_id();
    for (int i = 0; i < SIZE; i++)
        values[core][i] = i * core;
    team_barrier();
    values[core][0] = add_up(core);
    team_barrier();
    if (core == 0) {
        int total = 0;
        for (int c = 0; c < 8; c++)
            total += totals[c];
        *(int *)argument = total;
    }
}

static void all(void *argument)
{
    cluster_fork(8, work, argument);
}

int main(void)
{
    cluster_run(all, &grand);
    console_text("grand ");
    console_signed(grand);
    console_text("\n");
    return grand != 20288;
}
