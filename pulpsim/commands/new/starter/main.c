/* Scales a vector in L2 on all cores of the cluster: each takes its part to L1 by DMA, and back. */

#include "pulp.h"

#define COUNT 4096
#define SCALE 0
region_name(SCALE, "scale");

static int values[COUNT];
static int *part_of[16] PULP_L1; /* the part of each core, in L1 */

static void scale(void *factor)
{
    int first, count = static_run(COUNT, cluster_cores(), &first);
    int *part = part_of[core_id()];
    uint32_t counter = dma_begin();
    dma_to_l1(part, values + first, sizeof(int) * count);
    dma_wait(counter);
    region_begin(SCALE);
    for (int i = 0; i < count; i++)
        part[i] *= *(int *)factor; /* which lies in L2: see what make profile says */
    region_end(SCALE);
    counter = dma_begin();
    dma_to_l2(part, values + first, sizeof(int) * count);
    dma_wait(counter);
}

static void on_cluster(void *factor)
{
    int cores = cluster_cores();
    for (int core = 0; core < cores; core++)
        part_of[core] = l1_take(sizeof(int) * (COUNT / cores + 1));
    cluster_fork(cores, scale, factor);
}

int main(void)
{
    static int factor = 3;
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
    cluster_run(on_cluster, &factor);
    for (int i = 0; i < COUNT; i++)
        wrong += values[i] != 3 * i;
    console_text(wrong ? "wrong\n" : "right\n");
    return wrong != 0; /* the exit status of `pulpsim run` */
}
