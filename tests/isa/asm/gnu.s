# What GNU as and this assembler must translate alike: RV32IMFC, pseudo-instructions, directives.
        .option norvc
        .text
        .globl  _start
        .equ    SIZE, 4 * 25
        LIMIT = 0x7f
        .set    MASK, (1 << 5 | 3) ^ ~0 & 0xf0
_start: nop
        li      a0, 0
        li      a0, -2048
        li      a1, 2048
        li      a2, 0x12345678
        li      a3, 0xfffff800
        li      a4, -1
        li      a5, 0x80000000
        li      a6, 0x7ffff800
        li      a7, SIZE / 3 - LIMIT
        la      t0, table
        lla     t1, buffer
        mv      t2, t0
        not     t3, t2
        neg     t4, t3
        seqz    t5, t4
        snez    t6, t5
        sltz    s0, s1
        sgtz    fp, s1
        zext.b  s2, s3
        add     a0, a0, 12
        and     a0, a0, -1
        or      a0, a0, 0x7f
        xor     a0, a0, 1
        slt     a0, a1, 5
        sltu    a0, a1, 5
        sll     a0, a1, 5
        srl     a0, a1, 5
        sra     a0, a1, 31
1:      beqz    a0, 1b
        bnez    a0, 1f
        blez    a0, 1b
        bgez    a0, 1f
        bltz    a0, _start
        bgtz    a0, far
        bgt     a0, a1, 1f
        ble     a0, a1, 1f
        bgtu    a0, a1, 1f
        bleu    a0, a1, 1b
1:      beq     a0, a1, .+8
        bne     a0, a1, . - 4
        blt     a0, a1, 1b
        bge     a0, a1, 2f
        bltu    a0, a1, 2f
        bgeu    a0, a1, 2f
2:      j       far
        jal     far
        jal     t0, far
        jr      t0
        jr      8(t0)
        jalr    t0
        jalr    -4(t0)
        jalr    t1, t0
        jalr    t1, t0, 16
        jalr    t1, 16(t0)
        ret
        call    far
        tail    far
        lb      a0, (a1)
        lh      a0, 2(a1)
        lw      a0, SIZE(a1)
        lbu     a0, -1(a1)
        lhu     a0, LIMIT+1(a1)
        sb      a0, (a1)
        sh      a0, 2(a1)
        sw      a0, -SIZE+4(sp)
        lw      a0, table
        sw      a0, buffer, t0
        lui     a0, %hi(table)
        addi    a0, a0, %lo(table)
        lw      a1, %lo(table + 4)(a0)
        sw      a1, %lo(buffer)(a0)
        lui     a0, 0xfffff
        auipc   a0, 1
3:      auipc   a1, %pcrel_hi(buffer + 8)
        addi    a1, a1, %pcrel_lo(3b)
        sw      a1, %pcrel_lo(3b)(a1)
        mul     a0, a1, a2
        mulh    a0, a1, a2
        mulhsu  a0, a1, a2
        mulhu   a0, a1, a2
        div     a0, a1, a2
        divu    a0, a1, a2
        rem     a0, a1, a2
        remu    a0, a1, a2
        csrr    a0, mstatus
        csrw    mtvec, a0
        csrs    mie, a0
        csrc    mip, a0
        csrwi   mscratch, 31
        csrsi   mstatus, 8
        csrci   mstatus, 8
        csrw    mscratch, 5
        csrrw   a0, mepc, a1
        csrrs   a0, 0x7c0, 3
        csrrci  a0, mcause, 3
        rdcycle a0
        rdcycleh a0
        rdinstret a0
        rdtime  a0
        frcsr   a0
        fscsr   a0
        fscsr   a0, a1
        frrm    a0
        fsrm    a0
        fsrmi   3
        frflags a0
        fsflags a0, a1
        fsflagsi 31
        fence
        fence   rw, w
        fence.i
        ecall
        ebreak
        mret
        wfi
        flw     fa0, 4(a0)
        fsw     ft11, -4(sp)
        fadd.s  fa0, fa1, fa2
        fsub.s  fa0, fa1, fa2, rtz
        fmul.s  f0, f1, f31, rne
        fdiv.s  fs0, fs1, fs11, rmm
        fsqrt.s fa0, fa1
        fmadd.s fa0, fa1, fa2, fa3
        fmsub.s fa0, fa1, fa2, fa3, rup
        fnmsub.s fa0, fa1, fa2, fa3, rdn
        fnmadd.s fa0, fa1, fa2, fa3, dyn
        fmv.s   fa0, fa1
        fneg.s  fa0, fa1
        fabs.s  fa0, fa1
        fsgnj.s fa0, fa1, fa2
        fmin.s  fa0, fa1, fa2
        fmax.s  fa0, fa1, fa2
        feq.s   a0, fa1, fa2
        flt.s   a0, fa1, fa2
        fle.s   a0, fa1, fa2
        fgt.s   a0, fa1, fa2
        fge.s   a0, fa1, fa2
        fclass.s a0, fa1
        fcvt.w.s a0, fa1
        fcvt.w.s a0, fa1, rtz
        fcvt.wu.s a0, fa1, rtz
        fcvt.s.w fa0, a1
        fcvt.s.wu fa0, a1
        fmv.x.w a0, fa1
        fmv.w.x fa0, a1
        fmv.x.s a0, fa1
        fmv.s.x fa0, a1
        .word   0xdeadbeef              # in code
        .p2align 4
        .option rvc
        c.nop
        c.addi  a0, -1
        c.li    a0, 31
        c.lui   a0, 0xfffe1
        c.lui   a0, 31
        c.addi16sp sp, -512
        c.addi4spn a0, sp, 1020
        c.lw    a0, 124(a1)
        c.sw    a0, 0(a1)
        c.flw   fa0, 4(a1)
        c.fsw   fa0, 8(a1)
        c.lwsp  ra, 252(sp)
        c.swsp  ra, 0(sp)
        c.flwsp fa0, 4(sp)
        c.fswsp fa0, 4(sp)
        c.mv    a0, a1
        c.add   a0, a1
        c.sub   a0, a1
        c.xor   a0, a1
        c.or    a0, a1
        c.and   a0, a1
        c.andi  a0, -32
        c.slli  a0, 31
        c.srli  a0, 1
        c.srai  a0, 31
        c.j     4f
        c.jal   4f
        c.beqz  a0, 4f
        c.bnez  s0, .-2
4:      c.jr    ra
        c.jalr  ra
        c.ebreak
        .option norvc
        .balign 4
        .macro  save register, offset=8
        sw      \register, \offset(sp)
        j       skip\@
        .word   \offset
skip\@: nop
        .endm
        save    a0
        save    register=a1, offset=16
        .rept   3
        addi    a0, a0, SIZE
        .endr
        lui a1, 5 ; addi a1, a1, 1      /* two on
        a line, and a comment on two */
        .org    _start + 1400
far:    ret
        .section .rodata
        .byte   1, -1, 255, 'a', '\n', '\\'
        .half   0xffff, -32768
        .balign 8
        .word   1 + 2 << 3, 1 << 2 | 3 + 4, 10 - 3 - 2, 100 / 7 * 7, -7 / 2, -7 % 3, 2 * 3 & 6 ^ 1
        .word   ~5 + 1, !0, !7, -(-3), 0b1011, 0777, 0x1F, 'z' - 'a', MASK, . - 4
        .word   table, table + 4, end - table, far - _start, 1f - 0f
0:      .zero   3
        .skip   2, 0xaa
1:      .space  1
        .dword  0x123456789abcdef0, -1
        .float  1.5, -0.1, 3.4028235e38, 1e-45, 16777219, 0.333333343267440795898
        .ascii  "a#b//c;\"d\"\\\t\x41\101", "e"
        .asciz  "f/*g*/", ""
        .string "h"
        .data
        .byte   7
        .align  3
table:  .word   table, buffer, SIZE, LIMIT
        .short  end - table
end:
        .bss
        .balign 16
buffer: .zero   64
        .comm   common, 12, 4
