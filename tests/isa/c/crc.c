/* Checksums: CRC-32 and CRC-16 by bits and by table, Adler-32, 64-bit FNV. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t crc32_bits(const uint8_t *p, int n)
{
    uint32_t crc = ~0u;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static uint32_t table[256];

static uint32_t crc32_table(const uint8_t *p, int n)
{
    uint32_t crc = ~0u;
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++)
                c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
            table[i] = c;
        }
    while (n--)
        crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
    return ~crc;
}

static uint16_t crc16(const uint8_t *p, int n)
{
    uint16_t crc = 0xFFFF;
    while (n--) {
        crc ^= (uint16_t)(*p++ << 8);
        for (int k = 0; k < 8; k++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static uint32_t adler32(const uint8_t *p, int n)
{
    uint32_t a = 1, b = 0;
    while (n--) {
        a = (a + *p++) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static uint64_t fnv(const uint8_t *p, int n)
{
    uint64_t hash = 0xCBF29CE484222325u;
    while (n--)
        hash = (hash ^ *p++) * 0x100000001B3u;
    return hash;
}

int main(void)
{
    static uint8_t data[1000];
    int failures = crc32_bits((const uint8_t *)"123456789", 9) != 0xCBF43926u;

    for (int i = 0; i < (int)sizeof data; i++)
        data[i] = (uint8_t)(i * i + (i >> 3));
    for (int n = 0; n <= (int)sizeof data; n = 3 * n + 1) {
        uint32_t bits = crc32_bits(data, n), tabled = crc32_table(data, n);
        failures += bits != tabled;
        printf("%4d %08" PRIx32 " %04x %08" PRIx32 " %016" PRIx64 "\n", n, bits, crc16(data, n), adler32(data, n), fnv(data, n));
    }
    printf("%" PRId64 " %" PRIu64 "\n", (int64_t)fnv(data, 7) / 12345, fnv(data, 8) % 1000003u);
    return failures;
}
