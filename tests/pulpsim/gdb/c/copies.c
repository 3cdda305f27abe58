/* Core 3 copies numbers to L1 and doubles one of them. */

#include "pulp.h"

static const int numbers[8] = {11, 22, 33, 44, 55, 66, 77, 88};
static int near[8] PULP_L1;

static void work(void *argument)
{
    if (core_id() == 3) {
        uint32_t counter = dma_begin();
        dma_to_l1(near + 1, numbers + 1, sizeof numbers - 8);
        dma_wait(counter);
        near[2] *= 2;
    }
    team_barrier();
}

static void all(void *argument)
{
    cluster_fork(8, work, argument);
}

int main(void)
{
    cluster_run(all, 0);
    return near[2] != 66;
}
