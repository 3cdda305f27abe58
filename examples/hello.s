# The fabric controller starts eight cores; they meet at a barrier; core 0 says so.
# Hart id = cluster << 5 | core; the fabric controller is core 0 of cluster 31.

    .equ CLUSTER_CONTROL, 0x10200000    # fetch enable 0x08, boot address of core i 0x40 + 4 i
    .equ CLUSTER_ICACHE, 0x10201400     # enable 0x00
    .equ EVENT_UNIT, 0x10204000         # of the core that asks: event mask, set bits 0x08
    .equ BARRIER, 0x10204200            # trigger mask 0x00, target mask 0x0c, wait and clear 0x1c
    .equ BARRIER_EVENT, 1 << 16
    .equ FC_ICACHE, 0x1a108800
    .equ EXIT, 0x1a1040a0               # 0x80000000 | status ends the run
    .equ CONSOLE, 0x1a10f000            # a byte stored is printed
    .equ CORES, 8

_start:
    li t0, 0xff
    li t1, FC_ICACHE
    sw t0, 0(t1)
    li t1, CLUSTER_ICACHE
    sw t0, 0(t1)

    li t1, CLUSTER_CONTROL + 0x40
    la t2, core
    lp.setupi x0, CORES, boot_end
    sw t2, 0(t1)
boot_end:
    addi t1, t1, 4
    li t1, CLUSTER_CONTROL
    sw t0, 8(t1)

    la t1, is_done
poll:
    lw t0, 0(t1)
    beqz t0, poll
    li t1, EXIT
    li t0, 0x80000000
    sw t0, 0(t1)
    j .

core:
    csrr s0, mhartid                    # cluster 0: the core's number
    li t1, EVENT_UNIT
    li t0, BARRIER_EVENT
    sw t0, 8(t1)
    li t1, BARRIER
    li t0, (1 << CORES) - 1
    sw t0, 0(t1)
    sw t0, 0x0c(t1)
    p.elw t0, 0x1c(t1)                  # sleeps until all have come
    bnez s0, sleep

    la s1, text
    li t1, CONSOLE
    j next
print:
    sb t0, 0(t1)
next:
    p.lbu t0, 1(s1!)
    bnez t0, print
    la t1, is_done
    sw t1, 0(t1)
sleep:
    wfi
    j sleep

    .section .rodata
text:
    .asciz "hello from eight cores\n"

    .data
    .balign 4
is_done:
    .word 0
