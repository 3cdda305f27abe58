/* Start of a C program: what firmware/runtime.py and firmware/fork.py emit, for programs that are
   compiled.

   The fabric controller enables the instruction caches, starts all cores of the cluster, and runs
   main; its result ends the run. Core 0 waits for cluster_run, the others for cluster_fork. */

#include "pulp.h"

#ifdef PULP_CV32E40P
#define ELW(rd, offset, rs1) .insn i 0x0b, 3, rd, offset(rs1)
#else
#define ELW(rd, offset, rs1) .insn i 0x03, 6, rd, offset(rs1)
#endif

    .cfi_sections .debug_frame
    .section .init, "ax"
    .globl _start
_start:
    .cfi_startproc
    .cfi_undefined ra               /* nothing has called this: call chains end here */
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __controller_stack
    li t0, 0x6000                   /* mstatus.FS: floats on, where the hart has the field */
    csrs mstatus, t0
    li t1, -1
    li t0, PULP_FABRIC_ICACHE
    sw t1, 0(t0)
    li t0, PULP_CLUSTER_ICACHE
    sw t1, 0(t0)
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  li t0, PULP_CONTROLLER_EVENTS + PULP_MASK_SET
    li t1, 1
    sw t1, 0(t0)
    li t0, PULP_SOC_CONTROL         /* INFO: the number of cores in the upper half */
    lhu t2, 2(t0)
    li t0, PULP_CLUSTER_CONTROL
    la t1, cluster_start
    li t3, 1
    sll t3, t3, t2
    addi t3, t3, -1
    addi t5, t0, PULP_BOOT_ADDRESS
3:  sw t1, 0(t5)
    addi t5, t5, 4
    addi t2, t2, -1
    bnez t2, 3b
    sw t3, PULP_FETCH_ENABLE(t0)
    call main
    .globl exit
exit:
    li t0, PULP_SOC_CONTROL + PULP_CORE_STATUS
    li t1, 0x80000000               /* end of the run, with the status below it */
    or t1, t1, a0
    sw t1, 0(t0)
4:  wfi
    j 4b
    .cfi_endproc

    .text
cluster_start:
    .cfi_startproc
    .cfi_undefined ra
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    csrr s0, mhartid
    andi s0, s0, 0x1f
    la t2, __cluster_stacks         /* the end of L1; a stack for each core, downwards */
    lui t1, %hi(__core_stack_size)
    addi t1, t1, %lo(__core_stack_size)
    mul t0, s0, t1
    sub sp, t2, t0                  /* at once: a value on the way may be on another's stack */
    sub s5, sp, t1                  /* the lowest address of the stack */
    li t0, PULP_STACK_PATTERN
    mv t1, s5
    addi t2, t1, PULP_STACK_ZONE
1:  sw t0, 0(t1)
    addi t1, t1, 4
    bltu t1, t2, 1b
    li t0, 0x6000
    csrs mstatus, t0
    li s1, PULP_EVENT_UNIT
    li s2, PULP_WAITED_FOR
    sw s2, PULP_MASK(s1)
    li t0, PULP_SOC_CONTROL
    lhu t2, 2(t0)
    li t3, 1
    sll t3, t3, t2
    addi t3, t3, -1
    sw t3, PULP_BARRIER_TRIGGER_MASK(s1)
    sw t3, PULP_BARRIER_TARGET_MASK(s1)
    ELW(t0, PULP_BARRIER_WAIT, s1)
    beqz s0, run_loop

fork_loop:                              /* cores 1 and up: wait for cluster_fork */
    ELW(s3, PULP_DISPATCH, s1)
    ELW(a0, PULP_DISPATCH, s1)
    jalr s3
    call check_stack
    ELW(t0, PULP_BARRIER_WAIT, s1)
    j fork_loop

run_loop:                           /* core 0: wait for cluster_run */
    la s4, sync_cluster_mailbox
5:  li t0, PULP_SOFTWARE_EVENT
    sw t0, PULP_MASK(s1)
    ELW(t0, PULP_WAIT_CLEAR, s1)
    sw s2, PULP_MASK(s1)
    lw t0, 0(s4)
    lw a0, 4(s4)
    jalr t0
    call check_stack
    li t0, 1
    sw t0, 8(s4)
    lw zero, 8(s4)                  /* it is there before the event is */
    li t1, PULP_CONTROLLER_EVENTS + PULP_STATUS_SET
    sw t0, 0(t1)
    j 5b
    .cfi_endproc

check_stack:                        /* of core s0, which is empty again */
    li t0, PULP_STACK_PATTERN
    mv t1, s5
    addi t2, t1, PULP_STACK_ZONE
1:  lw t3, 0(t1)
    addi t1, t1, 4
    bne t3, t0, 6f
    bltu t1, t2, 1b
    ret
6:  li t0, PULP_STDOUT
    la t1, overflow
7:  lbu t2, 0(t1)
    addi t1, t1, 1
    beqz t2, 8f
    sb t2, 0(t0)
    j 7b
8:  li t1, 10
    bltu s0, t1, 9f
    li t2, '1'
    sb t2, 0(t0)
    addi s0, s0, -10
9:  addi s0, s0, '0'
    sb s0, 0(t0)
    li t2, '\n'
    sb t2, 0(t0)
    li a0, PULP_STACK_OVERFLOW
    j exit

    .section .rodata
overflow:
    .string "stack overflow on core "
