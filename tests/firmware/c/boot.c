/* PULP's own runtime, register by register: boot, UART, cluster, DMA, exit. Nothing else is linked.

   All cores print at once; core 0 copies with two allocations of the DMA, as mchan/multi_trans. */
#include <stdint.h>

#define LOAD(address) (*(volatile uint32_t *)(address))
#define STORE(address, value) (*(volatile uint32_t *)(address) = (value))
#define ELW(address)                                                                         \
    ({                                                                                       \
        uint32_t value_;                                                                     \
        __asm__ volatile(".insn i 0x03, 6, %0, 0(%1)" : "=r"(value_) : "r"(address) : "memory"); \
        value_;                                                                              \
    })

#define FLL 0x1A100000u
#define UDMA 0x1A102000u
#define UART (UDMA + 0x80)
#define SOC_EVENTS 0x1A106000u
#define INTERRUPTS 0x1A109800u
#define STDOUT 0x1A10F000u
#define UNIT 0x00204000u
#define DMA (UNIT + 0x400)
#define LOCK 0x10000100u
#define TEST_AND_SET 0x100000u
#define BUFFER 0x10001000u
#define TRANSFERS 16
#define SIZE 128

static volatile uint32_t done, errors;
static uint8_t character;
static uint8_t source[TRANSFERS * SIZE], target[TRANSFERS * SIZE];

__asm__(".section .init, \"ax\"\n"
        ".globl _start\n"
        "_start:\n"
        "   csrr a0, mhartid\n"
        "   andi a1, a0, 31\n"
        "   srli a2, a0, 5\n"
        "   beqz a2, 1f\n"
        "   li sp, 0x1C040000\n"
        "   call controller\n"
        "1: slli t0, a1, 10\n"
        "   li sp, 0x10008400\n"
        "   add sp, sp, t0\n"
        "   mv a0, a1\n"
        "   call core\n"
        "   .balign 256\n"
        "vectors:\n"
        "   j vectors\n"
        ".text\n");

static void start_flls(void)
{
    for (int f = 0; f < 3; f++) {
        uint32_t fll = FLL + 0x10 * f;
        if (LOAD(fll + 4) != 0x454C05F5)
            errors |= 1;
        STORE(fll + 8, (LOAD(fll + 8) & 0xF000000F) | 0x00501900);
        STORE(fll + 12, (LOAD(fll + 12) & 0xFFC0) | 332 << 16);
        STORE(fll + 4, 0xC54C05F5);
    }
}

static void open_uart(void)
{
    STORE(UDMA, LOAD(UDMA) | 1);
    STORE(SOC_EVENTS + 4, LOAD(SOC_EVENTS + 4) & ~1u);
    STORE(SOC_EVENTS + 4, LOAD(SOC_EVENTS + 4) & ~2u);
    STORE(UART + 0x24, 0x01B10306);
}

static void wait_for_uart(void)
{
    while (LOAD(UART + 0x18) & 1 << 4)
        ;
    while (LOAD(UART + 0x20) & 1)
        ;
}

static void print_uart(const char *text)
{
    while (LOAD(LOCK | TEST_AND_SET))
        ;
    for (; *text; text++) {
        *(volatile uint8_t *)&character = *text;
        STORE(UART + 0x10, (uint32_t)&character);
        STORE(UART + 0x14, 1);
        STORE(UART + 0x18, 0x10);
        wait_for_uart();
    }
    STORE(LOCK, 0);
}

static void close_uart(void)
{
    wait_for_uart();
    STORE(UART + 0x24, 0x00500006);
    STORE(UDMA, LOAD(UDMA) & ~1u);
}

static void print(int cluster, int core, const char *text)
{
    for (; *text; text++)
        STORE(STDOUT + 128 * cluster + 8 * core, *text);
}

void controller(void)
{
    start_flls();
    STORE(INTERRUPTS + 8, 0xFFFFFFFF);
    __asm__ volatile("la t0, vectors\n ori t0, t0, 1\n csrw mtvec, t0\n csrsi mstatus, 8" ::: "t0");
    STORE(LOCK, 0);
    open_uart();
    print_uart("up\n");
    print(31, 0, "up\n");
    STORE(FLL + 0x24, (LOAD(FLL + 0x24) & 0xC0000000) | 0x0D4C17D4);
    STORE(0x10201400, 0xFFFFFFFF);
    for (int core = 0; core < 8; core++) {
        extern void _start(void);
        STORE(0x10200040 + 4 * core, (uint32_t)_start);
    }
    STORE(0x10200008, 0xFF);
    while (!done)
        ;
    close_uart();
    STORE(0x1A1040A0, errors | 0x80000000);
    STORE(INTERRUPTS + 8, 0xFFFFFFFF);
    for (;;)
        __asm__ volatile("wfi");
}

static void barrier(void)
{
    STORE(UNIT + 0x200, 0xFF);
    STORE(UNIT + 0x20C, 0xFF);
    ELW(UNIT + 0x21C);
}

static void wait_for_counter(uint32_t counter)
{
    while (LOAD(DMA + 4) & 1 << counter)
        ELW(UNIT + 0x3C);
}

/* Copy all on the second of two counters; the first is never used. */
static void copy(uint32_t l2, uint32_t to_l1)
{
    uint32_t first = LOAD(DMA), second = LOAD(DMA);
    for (uint32_t at = 0; at < TRANSFERS * SIZE; at += SIZE) {
        STORE(DMA, SIZE | to_l1 << 17 | 1 << 18 | 1 << 20);
        STORE(DMA, BUFFER + at);
        STORE(DMA, l2 + at);
    }
    if (first == second || LOAD(DMA + 4) & 1 << first)
        errors |= 2;
    wait_for_counter(first);
    wait_for_counter(second);
    if ((LOAD(DMA + 4) >> 16) != (1 << first | 1 << second))
        errors |= 4;
    STORE(DMA + 4, 1 << first);
    STORE(DMA + 4, 1 << second);
}

static void copy_both_ways(void)
{
    for (int i = 0; i < TRANSFERS * SIZE; i++)
        source[i] = i ^ i >> 5;
    STORE(UNIT + 0x08, 1 << 8);
    copy((uint32_t)source, 1);
    copy((uint32_t)target, 0);
    STORE(UNIT + 0x04, 1 << 8);
    for (int i = 0; i < TRANSFERS * SIZE; i++)
        if (((volatile uint8_t *)target)[i] != (uint8_t)(i ^ i >> 5))
            errors |= 8;
}

void core(int number)
{
    char line[] = "core 0, line 0\n";
    STORE(UNIT + 0x08, 7 << 16);
    barrier();
    line[5] += number;
    for (int i = 0; i < 4; i++, line[13]++)
        print(0, number, line);
    barrier();
    if (number == 0) {
        copy_both_ways();
        done = 1;
    }
    STORE(UNIT + 0x04, 0xFFFFFFFF);
    for (;;)
        ELW(UNIT + 0x38);
}
