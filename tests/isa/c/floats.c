/* Single-precision arithmetic, to the bit. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t seed = 1;

static float number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return from_bits((seed & 0x807FFFFF) | (120 + (seed >> 23 & 15)) << 23);
}

static float root(float a)
{
    float x = a;
    for (int i = 0; i < 20; i++)
        x = 0.5f * (x + a / x);
    return x;
}

static float polynomial(float x)
{
    static const float c[] = {1.0f, -0.5f, 0.33333334f, -0.25f, 0.2f, -0.16666667f};
    float sum = 0;
    for (int i = 5; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

static void matrices(void)
{
    static float a[8][8], b[8][8], c[8][8];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            a[i][j] = number(), b[i][j] = number();
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            float sum = 0;
            for (int k = 0; k < 8; k++)
                sum = fmaf(a[i][k], b[k][j], sum);
            c[i][j] = sum;
        }
    for (int i = 0; i < 8; i++)
        printf("c[%d] %08lx %08lx\n", i, (unsigned long)bits(c[i][i]), (unsigned long)bits(c[i][7 - i]));
}

int main(void)
{
    for (int i = 0; i < 12; i++) {
        volatile float x = number(), y = number();
        printf("%08lx %08lx %08lx %08lx ", (unsigned long)bits(x + y), (unsigned long)bits(x - y),
               (unsigned long)bits(x * y), (unsigned long)bits(x / y));
        printf("%08lx %08lx %08lx ", (unsigned long)bits(sqrtf(fabsf(x))), (unsigned long)bits(root(fabsf(x))),
               (unsigned long)bits(polynomial(x)));
        printf("%ld %lu %d%d%d %08lx %08lx %08lx\n", (long)(int32_t)x, (unsigned long)(uint32_t)fabsf(y), x < y, x <= y,
               x == y, (unsigned long)bits(fminf(x, y)), (unsigned long)bits(copysignf(x, y)),
               (unsigned long)bits((float)(int32_t)seed));
    }
    matrices();

    volatile float tiny = from_bits(1), huge = from_bits(0x7F7FFFFF), zero = 0.0f;
    printf("%08lx %08lx %08lx ", (unsigned long)bits(tiny / 2), (unsigned long)bits(tiny * 3), (unsigned long)bits(huge * 2));
    printf("%08lx %08lx %d %d\n", (unsigned long)bits(1 / zero), (unsigned long)bits(-1 / zero), isnan(zero / zero) != 0,
           isinf(huge + huge) != 0);
    float sum = 0, back = 0;
    for (int i = 1; i <= 1000; i++)
        sum += 1.0f / i, back += 1.0f / (1001 - i);
    printf("%08lx %08lx\n", (unsigned long)bits(sum), (unsigned long)bits(back));
    return 0;
}
