/* Runs main on the fabric controller; its result ends the simulation. */
    .section .init, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack
    la tp, __tls_base
    li t0, 0x6000                   /* mstatus.FS: floats on, where the hart has the field */
    csrs mstatus, t0
    li t0, 0x1A108800               /* instruction cache of the fabric controller: enable */
    li t1, -1
    sw t1, 0(t0)
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
    .globl _exit
_exit:
    li t0, 0x1A1040A0               /* core status: bit 31 ends the simulation with the status below it */
    li t1, 0x80000000
    or t1, t1, a0
    sw t1, 0(t0)
3:  j 3b
