/* Five ways to sort the same pseudo-random numbers; all must agree. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 300

static uint32_t seed = 12345;

static int32_t number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (int32_t)seed >> (seed & 15);
}

static void insertion(int32_t *a, int n)
{
    for (int i = 1; i < n; i++) {
        int32_t x = a[i];
        int j = i;
        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

static void sift(int32_t *a, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child] < a[child + 1])
            child++;
        if (a[root] >= a[child])
            return;
        int32_t t = a[root];
        a[root] = a[child];
        a[child] = t;
    }
}

static void heap(int32_t *a, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(a, i, n);
    for (int end = n - 1; end > 0; end--) {
        int32_t t = a[0];
        a[0] = a[end];
        a[end] = t;
        sift(a, 0, end);
    }
}

static void merge(int32_t *a, int n)
{
    static int32_t scratch[N];
    if (n < 2)
        return;
    int half = n / 2, i = 0, j = half, k = 0;
    merge(a, half);
    merge(a + half, n - half);
    while (i < half && j < n)
        scratch[k++] = a[i] <= a[j] ? a[i++] : a[j++];
    while (i < half)
        scratch[k++] = a[i++];
    memcpy(a, scratch, k * sizeof *a);
}

/* By bytes, the lowest first; the sign bit flipped so that negative numbers come first. */
static void radix(int32_t *a, int n)
{
    static int32_t scratch[N];
    for (int shift = 0; shift < 32; shift += 8) {
        uint16_t start[257] = {0};
        for (int i = 0; i < n; i++)
            start[(((uint32_t)a[i] ^ 0x80000000u) >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            start[i + 1] += start[i];
        for (int i = 0; i < n; i++)
            scratch[start[((uint32_t)a[i] ^ 0x80000000u) >> shift & 255]++] = a[i];
        memcpy(a, scratch, n * sizeof *a);
    }
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void library(int32_t *a, int n)
{
    qsort(a, n, sizeof *a, compare);
}

int main(void)
{
    static int32_t original[N], reference[N], a[N];
    static const struct {
        const char *name;
        void (*sort)(int32_t *, int);
    } ways[] = {{"insertion", insertion}, {"heap", heap}, {"merge", merge}, {"radix", radix}, {"qsort", library}};
    int failures = 0;

    for (int i = 0; i < N; i++)
        original[i] = number();
    memcpy(reference, original, sizeof original);
    insertion(reference, N);
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++) {
        uint32_t hash = 2166136261u;
        memcpy(a, original, sizeof original);
        ways[w].sort(a, N);
        for (int i = 0; i < N; i++)
            hash = (hash ^ (uint32_t)a[i]) * 16777619u;
        failures += memcmp(a, reference, sizeof a) != 0;
        printf("%-9s %08lx %ld %ld %ld\n", ways[w].name, (unsigned long)hash, (long)a[0], (long)a[N / 2], (long)a[N - 1]);
    }
    return failures;
}
