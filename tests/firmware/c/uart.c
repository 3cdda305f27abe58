/* Prints the same on the UART, as PULP's firmware does it, and on the console; then receives. */
#include "pulp.h"

#define UDMA 0x1A102000u
#define UART (UDMA + 0x80)
#define EVENTS 0x1A106000u

static unsigned char character, line[8];

static void uart_open(void)
{
    pulp_store(UDMA, pulp_load(UDMA) | 1);
    pulp_store(EVENTS + 4, pulp_load(EVENTS + 4) & ~1u);
    pulp_store(EVENTS + 4, pulp_load(EVENTS + 4) & ~2u);
    pulp_store(UART + 0x24, 0x01B10306);
}

static void uart_wait(void)
{
    while (pulp_load(UART + 0x18) & 1 << 4)
        ;
    while (pulp_load(UART + 0x20) & 1)
        ;
}

static void uart_character(char c)
{
    *(volatile unsigned char *)&character = c;
    pulp_store(UART + 0x10, (unsigned)&character);
    pulp_store(UART + 0x14, 1);
    pulp_store(UART + 0x18, 0x10);
    uart_wait();
}

int main(void)
{
    uart_open();
    for (const char *c = "Hello, UART!\n"; *c; c++)
        uart_character(*c);
    console_text("Hello, UART!\n");
    pulp_store(UART + 0x00, (unsigned)line);
    pulp_store(UART + 0x04, 5);
    pulp_store(UART + 0x08, 0x10);
    while (pulp_load(UART + 0x08) & 1 << 4)
        ;
    for (int i = 0; i < 5; i++)
        console_character(((volatile unsigned char *)line)[i]);
    uart_wait();
    pulp_store(UART + 0x24, 0x00500006);
    pulp_store(UDMA, pulp_load(UDMA) & ~1u);
    return 0;
}
