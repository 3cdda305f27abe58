/* The dot product of two vectors in L2 on all cores of the cluster.

   Each core loads its parts of both into L1 by DMA, while it works on those before; then all add
   up what they have, one at a time. */

#include "pulp.h"

#define COUNT 8192
#define PART 128 /* elements */

#define SUM 0
region_name(SUM, "sum");

static float x[COUNT], y[COUNT];
static float result;

struct part {
    float x[PART], y[PART];
};
static struct part buffers[16][2] PULP_L1; /* two of each core */
static float total PULP_L1;

static uint32_t load(struct part *part, int first)
{
    uint32_t counter = dma_begin();
    dma_to_l1(part->x, x + first, sizeof part->x);
    dma_to_l1(part->y, y + first, sizeof part->y);
    return counter;
}

static void add_up(void *argument)
{
    int first, left = static_run(COUNT / PART, cluster_cores(), &first);
    struct part *now = &buffers[core_id()][0], *next = &buffers[core_id()][1];
    float sum = 0;
    uint32_t counter = left ? load(now, first * PART) : 0;
    while (left--) {
        dma_wait(counter);
        if (left)
            counter = load(next, ++first * PART);
        for (int i = 0; i < PART; i++)
            sum += now->x[i] * now->y[i];
        struct part *spare = now;
        now = next;
        next = spare;
    }
    critical_begin(0);
    total += sum;
    critical_end(0);
}

static void dot(void *argument)
{
    total = 0;
    region_begin(SUM);
    cluster_fork(cluster_cores(), add_up, NULL);
    region_end(SUM);
    result = total;
}

int main(void)
{
    for (int i = 0; i < COUNT; i++) {
        x[i] = i % 7 - 3;
        y[i] = i % 5 - 1;
    }
    cluster_run(dot, NULL);
    console_text("x . y = ");
    console_signed((int32_t)result);
    console_character('\n');
    return 0;
}
