/* Floats through the C library: printf, snprintf, strtod. Double precision is emulated.
   At most 15 digits: C libraries differ in what they print beyond those that a double has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static const float numbers[] = {0.0f,    -0.0f,      1.0f,   -2.5f,    3.14159274f, 1e-7f,
                                    1.5e-45f, 1e10f, 12345.678f, 0.1f, -99999.996f, 16777216.0f};
    static const char *const texts[] = {"1", "-0.5", "2.2250738585072014e-308", "1e23", "0.1", "123456789012345678", "nan", "-inf"};
    char buffer[64];

    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        float x = numbers[i];
        printf("%f|%.3e|%g|%12.4f|%-10.2g|%+.1f\n", x, x, x, x, x, x);
    }
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        double d = strtod(texts[i], NULL);
        snprintf(buffer, sizeof buffer, "%.15g", d);
        printf("%s %s %.6g %d\n", texts[i], buffer, d * 3 / 7, (int)strlen(buffer));
    }
    printf("%.8e %.8e\n", 3.4028235e38f, 1.17549435e-38f);
    printf("%d %u %5d|%-5d|%05d %x %X %o %c %s %%\n", -7, 7u, 42, 42, 42, 48879, 48879, 8, 'x', "text");
    return 0;
}
