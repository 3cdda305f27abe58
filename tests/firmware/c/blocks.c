/* Copies, fills and compares blocks by the calls that compilers make: counts what is wrong. */

#include "pulp.h"

enum { SIZE = 40 };

void *memcpy(void *restrict, const void *restrict, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);

#define IN_MEMORY() __asm__ volatile("" ::: "memory")

static unsigned char block[SIZE];
static int numbers[SIZE];

static void number(void)
{
    for (int i = 0; i < SIZE; i++)
        block[i] = i;
    IN_MEMORY();
}

/* Wrong bytes of the block after `size` bytes of `value`, `value` + `step`, ... went to `target`. */
static int mistakes(void *returned, int target, int value, int step, int size)
{
    int count = returned != block + target;
    IN_MEMORY();
    for (int i = 0; i < SIZE; i++)
        count += block[i] != (target <= i && i < target + size ? value + step * (i - target) : i);
    number();
    return count;
}

static int moved(int target, int source, int size)
{
    return mistakes(memmove(block + target, block + source, size), target, source, 1, size);
}

static int compared(void)
{
    int count = memcmp(block, block + 1, 0) != 0 || memcmp(block, block, SIZE) != 0;
    count += memcmp(block, block + 1, 5) >= 0 || memcmp(block + 1, block, 5) <= 0;
    block[3] = 0xFF; /* unsigned, and after three equal ones */
    block[20] = 0, block[21] = 1, block[22] = 2, block[23] = 3;
    IN_MEMORY();
    count += memcmp(block, block + 20, 4) <= 0 || memcmp(block, block + 20, 3) != 0;
    number();
    return count;
}

/* Loops that compilers turn into calls. */
static int recognised(void)
{
    int count = 0;
    for (int i = 0; i < SIZE; i++)
        numbers[i] = 0;
    IN_MEMORY();
    for (int i = 0; i < SIZE; i++)
        count += numbers[i] != 0;
    for (int i = 0; i < SIZE; i++)
        numbers[i] = i;
    IN_MEMORY();
    for (int i = 0; i < SIZE - 1; i++)
        numbers[i] = numbers[i + 1];
    IN_MEMORY();
    for (int i = 0; i < SIZE - 1; i++)
        count += numbers[i] != i + 1;
    return count;
}

int main(void)
{
    int count = 0;
    number();
    for (int size = 0; size < 12; size++) {
        count += mistakes(memcpy(block + 1, block + 20, size), 1, 20, 1, size);
        count += mistakes(memset(block + 3, 0x1A5, size), 3, 0xA5, 0, size);
        count += moved(4, 4, size) + moved(4, 7, size) + moved(7, 4, size) + moved(9, 28, size);
    }
    return count + compared() + recognised();
}
