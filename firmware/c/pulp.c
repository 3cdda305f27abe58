/* The calls of pulp.h that are not inline. */

#include "pulp.h"

enum {
    TO_L1 = 1 << 17,
    INCREMENT = 1 << 18,
    LINES = 1 << 19,
    EVENT = 1 << 20,
    CONTROLLER_EVENT = 1,
};

extern char __l1_arena[], __l1_arena_end[], __l2_arena[], __l2_arena_end[];

/* Harts synchronise by it: the name tells pulpsim's checks. */
volatile struct {
    void (*function)(void *);
    void *argument;
    uint32_t done;
} sync_cluster_mailbox;

void cluster_run(void (*function)(void *), void *argument)
{
    sync_cluster_mailbox.done = 0;
    sync_cluster_mailbox.function = function;
    sync_cluster_mailbox.argument = argument;
    pulp_store(PULP_EVENT_UNIT_SHARED + PULP_SW_EVENT, 1);
    while (!sync_cluster_mailbox.done)
        __asm__ volatile("wfi" ::: "memory");
    pulp_store(PULP_CONTROLLER_EVENTS + PULP_STATUS_CLEAR, CONTROLLER_EVENT);
}

void cluster_fork(int cores, void (*function)(void *), void *argument)
{
    uint32_t team = (1u << cores) - 1;
    pulp_store(PULP_EVENT_UNIT + PULP_BARRIER_TRIGGER_MASK, team);
    pulp_store(PULP_EVENT_UNIT + PULP_BARRIER_TARGET_MASK, team);
    if (cores > 1) {
        pulp_store(PULP_EVENT_UNIT + PULP_DISPATCH_TEAM, team & ~1u);
        pulp_store(PULP_EVENT_UNIT + PULP_DISPATCH, (uint32_t)function);
        pulp_store(PULP_EVENT_UNIT + PULP_DISPATCH, (uint32_t)argument);
    }
    function(argument);
    team_barrier();
}

uint32_t dma_begin(void) { return 1u << pulp_load(PULP_DMA); }

static void start(uint32_t flags, const void *l1, const void *l2, uint32_t size)
{
    pulp_store(PULP_DMA, size | flags | INCREMENT | EVENT);
    pulp_store(PULP_DMA, (uint32_t)l1);
    pulp_store(PULP_DMA, (uint32_t)l2);
}

static void start_lines(uint32_t line, uint32_t stride)
{
    pulp_store(PULP_DMA, line);
    pulp_store(PULP_DMA, stride);
}

void dma_to_l1(void *l1, const void *l2, uint32_t size) { start(TO_L1, l1, l2, size); }

void dma_to_l2(const void *l1, void *l2, uint32_t size) { start(0, l1, l2, size); }

void dma_lines_to_l1(void *l1, const void *l2, uint32_t size, uint32_t line, uint32_t stride)
{
    start(TO_L1 | LINES, l1, l2, size);
    start_lines(line, stride);
}

void dma_lines_to_l2(const void *l1, void *l2, uint32_t size, uint32_t line, uint32_t stride)
{
    start(LINES, l1, l2, size);
    start_lines(line, stride);
}

void dma_wait(uint32_t counter)
{
    if (pulp_load(PULP_DMA + PULP_DMA_STATUS) & counter) {
        pulp_store(PULP_EVENT_UNIT + PULP_MASK, PULP_DMA_EVENT);
        do
            (void)pulp_wait(PULP_WAIT_CLEAR);
        while (pulp_load(PULP_DMA + PULP_DMA_STATUS) & counter);
        pulp_store(PULP_EVENT_UNIT + PULP_MASK, PULP_WAITED_FOR);
    }
    pulp_store(PULP_DMA + PULP_DMA_STATUS, counter);
}

/* How far the arenas are given away: the name tells pulpsim's checks. */
char *__arenas_taken[2] = {__l1_arena, __l2_arena};

static void *take(char **next, char *end, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > (size_t)(end - *next))
        return NULL;
    void *taken = *next;
    *next += size;
    return taken;
}

void *l1_take(size_t size) { return take(&__arenas_taken[0], __l1_arena_end, size); }

void *l2_take(size_t size) { return take(&__arenas_taken[1], __l2_arena_end, size); }

/* The address of a character carries cluster and core, each of which has lines of its own. */
void console_character(char character)
{
    uint32_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    *(volatile char *)(PULP_STDOUT + (hart >> 5) * 128 + (hart & 31) * 8) = character;
}

void console_text(const char *text)
{
    while (*text)
        console_character(*text++);
}

void console_number(uint32_t value)
{
    char digits[10];
    int count = 0;
    do
        digits[count++] = '0' + value % 10;
    while (value /= 10);
    while (count)
        console_character(digits[--count]);
}

void console_signed(int32_t value)
{
    if (value < 0)
        console_character('-');
    console_number(value < 0 ? -(uint32_t)value : (uint32_t)value);
}

void console_hexadecimal(uint32_t value)
{
    for (int shift = 28; shift >= 0; shift -= 4)
        console_character("0123456789abcdef"[value >> shift & 15]);
}

/* mantissa * 2^(exponent - 31), brought to 1 .. 10 times 10^power, with 28 bits after the point. */
static uint32_t scaled(uint32_t mantissa, int exponent, int *power)
{
    for (;;) {
        while (!(mantissa >> 31)) {
            mantissa <<= 1;
            exponent--;
        }
        if (exponent < 0) { /* times ten: 5/8 of 16 */
            mantissa = (uint64_t)mantissa * 0xA0000000 >> 32;
            exponent += 4;
            --*power;
        } else if (exponent > 3 || (exponent == 3 && mantissa >= 0xA0000000)) { /* 4/5 of 1/8 */
            mantissa = (uint64_t)mantissa * 0xCCCCCCCD >> 32;
            exponent -= 3;
            ++*power;
        } else
            return mantissa >> (3 - exponent);
    }
}

void console_float(float value)
{
    union {
        float number;
        uint32_t bits;
    } as = {value};
    int exponent = as.bits >> 23 & 0xFF, power = 0;
    uint32_t mantissa = as.bits << 9 >> 1;
    if (as.bits >> 31)
        console_character('-');
    if (exponent == 0xFF) {
        console_text(mantissa ? "nan" : "inf");
        return;
    }
    if (exponent)
        mantissa |= 0x80000000;
    else
        exponent = 1;
    if (mantissa)
        mantissa = scaled(mantissa, exponent - 127, &power) + 1342; /* half of the last decimal */
    if (mantissa >= 0xA0000000) {
        mantissa = 1 << 28;
        power++;
    }
    console_character('0' + (mantissa >> 28));
    console_character('.');
    for (int decimals = 0; decimals < 5; decimals++) {
        mantissa = (mantissa & 0xFFFFFFF) * 10;
        console_character('0' + (mantissa >> 28));
    }
    console_text(power < 0 ? "e-" : "e+");
    power = power < 0 ? -power : power;
    if (power < 10)
        console_character('0');
    console_number(power);
}

/* What compilers call without being asked to. They know such loops, and would put a call of the very
 * function in their place: a pointer that is not known to advance by one hides what the loop is. */
#define HIDDEN(pointer) __asm__("" : "+r"(pointer))

static void copy(char *to, const char *from, size_t size)
{
    for (; size; size--) {
        *to++ = *from++;
        HIDDEN(to);
    }
}

void *memcpy(void *restrict target, const void *restrict source, size_t size)
{
    copy(target, source, size);
    return target;
}

void *memmove(void *target, const void *source, size_t size)
{
    char *to = target;
    const char *from = source;
    if (to <= from)
        copy(to, from, size);
    else
        while (size--) {
            to[size] = from[size];
            HIDDEN(to);
        }
    return target;
}

void *memset(void *target, int value, size_t size)
{
    char *to = target;
    for (; size; size--) {
        *to++ = value;
        HIDDEN(to);
    }
    return target;
}

int memcmp(const void *first, const void *second, size_t size)
{
    const unsigned char *a = first, *b = second;
    for (; size && *a == *b; size--) {
        a++, b++;
        HIDDEN(a);
    }
    return size ? *a - *b : 0;
}
