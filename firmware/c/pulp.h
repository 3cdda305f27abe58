/* Programs in C for the PULP platform: the calls of firmware/, for a compiler.

   main runs on the fabric controller. cluster_run lets core 0 of the cluster work, which lets the
   others help with cluster_fork. Memory map and calling convention are those of firmware/runtime.py:
   a core's stack has 1 kB. The simulator stops a core whose sp leaves it; on a chip, what has
   overwritten its end is told when the core's work ends. Larger: see link.ld. */

#ifndef PULP_H
#define PULP_H

/* Addresses; offsets from them in the lines after. */
#define PULP_EVENT_UNIT 0x10204000
#define PULP_MASK 0x00
#define PULP_WAIT_CLEAR 0x3C
#define PULP_DISPATCH 0x80
#define PULP_DISPATCH_TEAM 0x84
#define PULP_MUTEX 0xC0
#define PULP_BARRIER_TRIGGER_MASK 0x200
#define PULP_BARRIER_TARGET_MASK 0x20C
#define PULP_BARRIER_WAIT 0x21C
#define PULP_DMA 0x10204400
#define PULP_DMA_STATUS 0x4
#define PULP_EVENT_UNIT_SHARED 0x10200800
#define PULP_SW_EVENT 0x600
#define PULP_CLUSTER_CONTROL 0x10200000
#define PULP_FETCH_ENABLE 0x08
#define PULP_BOOT_ADDRESS 0x40
#define PULP_CLUSTER_ICACHE 0x10201400
#define PULP_FABRIC_ICACHE 0x1A108800
#define PULP_CONTROLLER_EVENTS 0x1A109800
#define PULP_MASK_SET 0x04
#define PULP_STATUS_SET 0x10
#define PULP_STATUS_CLEAR 0x14
#define PULP_SOC_CONTROL 0x1A104000
#define PULP_CORE_STATUS 0xA0
#define PULP_STDOUT 0x1A10F000

/* Event lines, a bit each. */
#define PULP_SOFTWARE_EVENT 0x1
#define PULP_DMA_EVENT 0x100
#define PULP_WAITED_FOR 0x70000 /* barrier, mutex, dispatch */

#define PULP_STACK_PATTERN 0x57AC57AC /* in the lowest words of a stack */
#define PULP_STACK_ZONE 32            /* bytes of them */
#define PULP_STACK_OVERFLOW 0x53 /* exit code */

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

/* A variable in L1; its contents are undefined at the start. */
#define PULP_L1 __attribute__((section(".l1"), aligned(4)))

/* Region n (a number, 0 to 1023) begins, ends: what is between is measured. */
#define region_begin(n) __asm__ volatile("slti x0, x0, %0" ::"i"(2 * (n)) : "memory")
#define region_end(n) __asm__ volatile("slti x0, x0, %0" ::"i"(2 * (n) + 1) : "memory")

/* The name that results and traces give region n, a decimal number or a macro of one. It is a
   section of the ELF file and takes no memory. At file scope, or in a function. */
#define region_name(n, name) PULP_REGION_NAME(n, name)
#define PULP_REGION_NAME(n, name)                             \
    __asm__(".pushsection .pulpsim.regions,\"\",%progbits\n\t" \
            ".asciz \"" #n " " name "\"\n\t.popsection")

#ifdef PULP_CV32E40P
#define PULP_ELW ".insn i 0x0b, 3, %0, %2(%1)"
#else
#define PULP_ELW ".insn i 0x03, 6, %0, %2(%1)"
#endif
#define pulp_wait(offset)                                                                \
    ({                                                                                   \
        uint32_t value_;                                                                 \
        __asm__ volatile(PULP_ELW : "=r"(value_) : "r"(PULP_EVENT_UNIT), "i"(offset) : "memory"); \
        value_;                                                                          \
    })

static inline void pulp_store(uint32_t address, uint32_t value)
{
    __asm__ volatile("" ::: "memory");
    *(volatile uint32_t *)address = value;
}

static inline uint32_t pulp_load(uint32_t address)
{
    uint32_t value = *(volatile uint32_t *)address;
    __asm__ volatile("" ::: "memory");
    return value;
}

/* The core that executes this, 0 and up. */
static inline int core_id(void)
{
    uint32_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    return hart & 0x1F;
}

/* The cluster's cores. */
static inline int cluster_cores(void) { return pulp_load(PULP_SOC_CONTROL) >> 16; }

/* Wait for all cores of the team. */
static inline void team_barrier(void) { (void)pulp_wait(PULP_BARRIER_WAIT); }

/* One core at a time between begin and end; mutex is a number: 0, on chips with
   event_unit.mutexes more, up to 15. */
#define critical_begin(mutex) ((void)pulp_wait(PULP_MUTEX + 4 * (mutex)))
#define critical_end(mutex) pulp_store(PULP_EVENT_UNIT + PULP_MUTEX + 4 * (mutex), 0)

/* The core's run of `count` rounds dealt out to `cores`: from *first on, as many as returned. */
static inline int static_run(int count, int cores, int *first)
{
    int run = (count + cores - 1) / cores;
    *first = core_id() * run;
    int left = count - *first;
    return left < 0 ? 0 : left < run ? left : run;
}

/* On the fabric controller: let core 0 run function(argument), and sleep until it has. */
void cluster_run(void (*function)(void *), void *argument);

/* On core 0: let cores 0 .. cores-1 run function(argument), and wait for them. */
void cluster_fork(int cores, void (*function)(void *), void *argument);

/* Copies in the background: begin, start any number of them, wait for all.
   A core that has begun starts one before it does anything else with the DMA.
   Lines of `line` bytes lie `stride` bytes apart in L2, without gaps in L1. */
uint32_t dma_begin(void);
void dma_to_l1(void *l1, const void *l2, uint32_t size);
void dma_to_l2(const void *l1, void *l2, uint32_t size);
void dma_lines_to_l1(void *l1, const void *l2, uint32_t size, uint32_t line, uint32_t stride);
void dma_lines_to_l2(const void *l1, void *l2, uint32_t size, uint32_t line, uint32_t stride);
void dma_wait(uint32_t counter);

/* Memory of an arena, 16-byte aligned; NULL if it does not fit. Not for two cores at once. */
void *l1_take(size_t size);
void *l2_take(size_t size);

void console_character(char character);
void console_text(const char *text);
void console_number(uint32_t value);
void console_signed(int32_t value);
void console_hexadecimal(uint32_t value);
void console_float(float value); /* 1.23457e-01, inf, nan */

_Noreturn void exit(int code);

#endif
#endif
