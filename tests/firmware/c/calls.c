/* All calls of pulp.h: prints what each did. */

#include "pulp.h"

static int counts[8] PULP_L1, total PULP_L1;
static int initialised = 41;
static int zero[3];
static char lines[60], back[60];

static void count(void *argument)
{
    int first, rounds = static_run(21, (int)argument, &first);
    team_barrier();
    for (int i = first; i < first + rounds; i++)
        counts[core_id()] += i;
    for (int i = 0; i < 10; i++) {
        critical_begin(0);
        total++;
        critical_end(0);
    }
}

static void move(void)
{
    char *block = l1_take(6 * 4);
    uint32_t counter = dma_begin();
    dma_lines_to_l1(block, lines + 2, 6 * 4, 4, 10);
    dma_wait(counter);
    for (int i = 0; i < 24; i++)
        block[i]++;
    counter = dma_begin();
    dma_lines_to_l2(block, back + 3, 6 * 4, 4, 10);
    dma_wait(counter);
    char *whole = l1_take(sizeof lines);
    counter = dma_begin();
    dma_to_l1(whole, lines, 30);
    dma_to_l1(whole + 30, lines + 30, 30);
    dma_wait(counter);
    counter = dma_begin();
    dma_to_l2(whole, back, 3);
    dma_wait(counter);
}

static void work(void *argument)
{
    for (int i = 0; i < 8; i++)
        counts[i] = 0;
    total = 0;
    for (int cores = 1; cores <= 8; cores *= 2)
        cluster_fork(cores, count, (void *)cores);
    move();
    *(int *)argument = total;
}

int main(void)
{
    int result;
    for (int i = 0; i < 60; i++)
        lines[i] = i;
    cluster_run(work, &result);
    console_signed(result);
    for (int i = 0; i < 8; i++) {
        console_character(' ');
        console_number(counts[i]);
    }
    console_text("\nback");
    for (int i = 0; i < 20; i++) {
        console_character(' ');
        console_number(back[i]);
    }
    console_character('\n');
    console_signed(-2147483647 - 1);
    console_character(' ');
    console_number(4294967295u);
    console_character(' ');
    console_hexadecimal(0x89ABCDEF);
    char *first = l2_take(5), *second = l2_take(100);
    console_character(' ');
    console_number(second - first);
    console_text(l1_take(60000) || l2_take(1 << 21) ? " bad" : " none left");
    console_character('\n');
    return initialised + zero[0] + zero[1] + zero[2] + cluster_cores();
}
