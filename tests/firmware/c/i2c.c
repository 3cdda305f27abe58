/* Writes four bytes to the EEPROM on bus 1, polls its acknowledgement, and reads them back. */
#include "pulp.h"

#define UDMA 0x1A102000u
#define I2C (UDMA + 0x200)
#define RX 0x00
#define CMD 0x20
#define NACK 0x38

#define START 0x00000000u
#define STOP 0x20000000u
#define READ_ACK 0x40000000u
#define READ_NACK 0x60000000u
#define BYTE 0x70000000u
#define END 0x90000000u
#define CONFIG 0xE0000000u

#define EVENTS 0x1A109800u

static unsigned write[] = {CONFIG | 0x40, START, BYTE | 0xA2, BYTE, BYTE,
    BYTE | 0xCA, BYTE | 1, BYTE | 0xDE, BYTE | 0xCA, STOP, END};
static unsigned poll[] = {START, BYTE | 0xA2, STOP, END};
static unsigned read[] = {CONFIG | 0x40, START, BYTE | 0xA2, BYTE, BYTE, START, BYTE | 0xA3,
    READ_ACK, READ_ACK, READ_ACK, READ_NACK, STOP, END};
static unsigned char received[4];

static void transfer(unsigned channel, const void *at, unsigned size)
{
    pulp_store(I2C + channel, (unsigned)at);
    pulp_store(I2C + channel + 4, size);
    pulp_store(I2C + channel + 8, 0x10);
}

/* Event 15, which END tells, waits in the controller's FIFO. */
static void run(const unsigned *commands, unsigned size)
{
    transfer(CMD, commands, size);
    while (!(pulp_load(EVENTS + 0x0C) & 1 << 26))
        ;
    pulp_store(EVENTS + 0x14, 1 << 26);
}

int main(void)
{
    pulp_store(UDMA, pulp_load(UDMA) | 1 << 3);
    pulp_store(0x1A106004, pulp_load(0x1A106004) & ~(1u << 15));
    run(write, sizeof write);
    do
        run(poll, sizeof poll);
    while (pulp_load(I2C + NACK));
    transfer(RX, received, 4);
    run(read, sizeof read);
    while (pulp_load(I2C + RX + 8) & 1 << 4)
        ;
    for (int i = 0; i < 4; i++) {
        unsigned byte = ((volatile unsigned char *)received)[i];
        console_character("0123456789abcdef"[byte >> 4]);
        console_character("0123456789abcdef"[byte & 15]);
        console_character(i < 3 ? ' ' : '\n');
    }
    return 0;
}
